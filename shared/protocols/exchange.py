"""The exchange of a call and its reply: what a handler needs, and how errors are written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from shared.domain.errors import ChatError, DeadlineExceeded, Misconfigured
from shared.domain.events import ByteStream
from shared.domain.request import RequestMetadata, User
from shared.files.base import Files
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.http.call import Call, Limits, Reply, cancel_on_disconnect
from shared.http.capacity import LOOKUPS_AT_ONCE, AnswerSlots
from shared.http.cross_origin import CrossOriginPolicy
from shared.http.health import Health
from shared.http.json_encoding import Json, dumps
from shared.memory.base import Memory
from shared.rag.flow import Rag
from shared.retrieval.search_scope import SearchScope
from shared.telemetry.access_log import AccessLog
from shared.telemetry.spans import NOOP_TRACER, Tracer

T = TypeVar("T")
JSON = "application/json"
CLIENT_GONE = "client gone"  # the outcome of a request whose client left


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFormat:
    """How a protocol writes an error. `error` gets the request's body, None if it is not parsed.

    `status` and `headers` are those of the error, unless the protocol has others.
    """

    name: str
    error: Callable[[ChatError, Any], Json]
    status: Callable[[ChatError, Any], int] = lambda failure, _body: failure.status
    headers: Callable[[ChatError], Mapping[str, str]] = lambda failure: failure.headers


@dataclass(frozen=True, slots=True)
class AppContext:
    """The parts of the app. `problems` describe wrong settings: then `engine` is None.

    `routes` are the paths that it answers.

    `search_scope` checks the data source of a request.
    `files` serves the files that citations refer to, `memory` stores conversations; None without.
    `stores_every_chat`: chats are stored there although their state does not ask for it.
    `chat_answers`: the member that holds the answer to a chat with `session_state`.
    `index` is the name of the index for OpenSearch's clients, `links` the beginning of links to
    documents, `base_url` the app's own address, empty if unknown: for absolute links of clients
    that are no web pages. `cross_origin` restricts the pages that may call. Each answer in progress
    has one of `answer_slots`; what reads the index without an answer waits for one of `lookups`.
    """

    engine: Rag | None = None
    access: AccessPolicy = field(default_factory=AccessPolicy)
    limits: Limits = field(default_factory=Limits)
    health: Health = field(default_factory=lambda: Health({}))
    files: Files | None = None
    memory: Memory | None = None
    stores_every_chat: bool = False
    chat_answers: str = "message"
    index: str = "documents"
    api_key: ApiKeyPolicy = field(default_factory=ApiKeyPolicy)
    search_scope: SearchScope = field(default_factory=SearchScope)
    links: str = ""
    base_url: str = ""
    tracer: Tracer = NOOP_TRACER
    cross_origin: CrossOriginPolicy = field(default_factory=CrossOriginPolicy)
    problems: tuple[str, ...] = ()
    has_page: bool = True
    answer_slots: AnswerSlots = field(default_factory=AnswerSlots)
    lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKUPS_AT_ONCE))
    routes: Collection[str] = ()


@dataclass
class Exchange:
    """A call, the app that answers it until `deadline` (the event loop's clock), its log line.

    `errors` is the format of the route, and `body` is None, until `identify`. `headers` are those
    of a successful reply: a transform of a stream may add to them until its first line is sent.
    `cleanup` is closed at the end of the reply, however it ends.
    """

    app: AppContext
    call: Call
    record: AccessLog
    errors: ErrorFormat
    deadline: float
    body: Any = None
    headers: dict[str, str] = field(default_factory=lambda: {"Cache-Control": "no-store"})
    cleanup: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def engine(self) -> Rag:
        """The parts of an answer, traced after `trace`. Raises Misconfigured."""
        if self.app.engine is None:
            raise Misconfigured
        return self.app.engine

    def acquire_slot(self) -> None:
        """Count this answer among those in progress, until its end.

        Raises Overloaded, TooManyRequests.
        """
        user = self.app.access.get_oid(self.call.headers)
        self.cleanup.callback(self.app.answer_slots.acquire(user))

    async def run(self, work: Awaitable[T]) -> T:
        """Await `work` until the deadline, while the client is there.

        Raises DeadlineExceeded, ClientDisconnected.
        """
        try:
            async with asyncio.timeout_at(self.deadline) as limit:
                return await cancel_on_disconnect(work, self.call.is_disconnected)
        except TimeoutError:
            if not limit.expired():  # not this time limit
                raise
            raise DeadlineExceeded from None

    def trace(self) -> None:
        """Begin the span of this request, which ends with the log line. Raises Misconfigured."""
        call, tracer = self.call, self.app.tracer
        self.record.span = tracer.start_request(f"{call.method} {call.route}", call.headers)
        self.engine = replace(self.engine, span=self.record.span)

    def identify(self, errors: ErrorFormat, body: Any = None) -> None:
        """Set the protocol, which depends on the body, and the body."""
        self.errors, self.body, self.record.dialect = errors, body, errors.name

    def metadata(self, user: User) -> RequestMetadata:
        """Return the metadata of a chat request of the user that arrives now."""
        return RequestMetadata(user, self.call.id, int(time.time()), self.app.links)

    def json_reply(self, value: Json) -> Reply:
        """Return a successful reply."""
        return Reply(200, JSON, dumps(value), self.headers)

    def failed(self, failure: ChatError) -> Reply:
        """Log a failure and return its reply."""
        self.record.record_failure(failure)
        body = dumps(self.errors.error(failure, self.body))
        status = self.errors.status(failure, self.body)
        return Reply(status, JSON, body, dict(self.errors.headers(failure)))

    def late_error(self, failure: Exception) -> Json:
        """Log a failure after the start of a stream and return its JSON."""
        return self.errors.error(self._logged(failure), self.body)

    async def begin(self, reply: Reply) -> Reply:
        """Return the reply with the first chunk of its stream. Raises the failures until then."""
        if reply.rest is None:
            return reply
        pieces = self._with_log_line(reply.rest)
        first = await cancel_on_disconnect(anext(pieces), self.call.is_disconnected)
        return replace(reply, body=first, rest=pieces)

    async def _with_log_line(self, pieces: ByteStream) -> ByteStream:
        """Pass bytes through and write the log line at their end. Raises ChatErrors."""
        started = False
        self.record.outcome = CLIENT_GONE  # until the end is reached, or an error is logged
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    started = True
                    yield piece
            if self.record.outcome == CLIENT_GONE:
                self.record.outcome = "ok"
        except Exception as failure:
            if not started:
                raise
            raise self._logged(failure) from None
        finally:
            if started:
                self.record.write()
                self.cleanup.close()

    def _logged(self, failure: Exception) -> ChatError:
        """Log a late failure and return the error that the caller may see."""
        if not isinstance(failure, ChatError):
            self.record.log_exception(failure)
            failure = ChatError()
        self.record.record_failure(failure)
        return failure
