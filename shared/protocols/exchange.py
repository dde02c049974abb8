"""One call being answered: what a handler needs, and how replies and failures are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from shared.chat.errors import ChatError, Misconfigured
from shared.chat.events import ByteStream
from shared.files.base import Files
from shared.http.auth import AccessPolicy, ApiKeyPolicy
from shared.http.call import Call, Limits, Reply, cancel_on_disconnect
from shared.http.cross_origin import CrossOriginPolicy
from shared.http.health import Health
from shared.http.json_encoding import Json, dumps
from shared.memory.base import Memory
from shared.rag.flow import Rag
from shared.retrieval.search_scope import SearchScope
from shared.telemetry.access_log import AccessLog
from shared.telemetry.spans import NOOP_TRACER, Tracer

JSON = "application/json"
CLIENT_GONE = "client gone"  # the outcome of a request whose client left


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFormat:
    """How a protocol writes a failure; `error` is given the body as far as it could be read.

    `status` and `headers` are the failure's own, where the protocol has no others for it.
    """

    name: str
    error: Callable[[ChatError, Any], Json]
    status: Callable[[ChatError, Any], int] = lambda failure, _body: failure.status
    headers: Callable[[ChatError], Mapping[str, str]] = lambda failure: failure.headers


@dataclass(frozen=True, slots=True)
class AppContext:
    """What the settings made. `problems` are the settings that are wrong: then `engine` is None.

    `files` are those behind citations, `memory` keeps conversations: None where there are none.
    `index` is what OpenSearch's clients call the one index, `links` what links to documents begin
    with.
    `search_scope` checks the data source of a request.
    `cross_origin` says which pages may call an app on a laptop; None anywhere else, where a key or
    a sign-in does.
    """

    engine: Rag | None = None
    access: AccessPolicy = field(default_factory=AccessPolicy)
    limits: Limits = field(default_factory=Limits)
    health: Health = field(default_factory=lambda: Health({}))
    files: Files | None = None
    memory: Memory | None = None
    index: str = "documents"
    api_key: ApiKeyPolicy = field(default_factory=ApiKeyPolicy)
    search_scope: SearchScope = field(default_factory=SearchScope)
    links: str = ""
    tracer: Tracer = NOOP_TRACER
    cross_origin: CrossOriginPolicy | None = None
    problems: tuple[str, ...] = ()


@dataclass
class Exchange:
    """A call, the app that answers it until `deadline` (the event loop's clock), its log line.

    `errors` and `body` are the route's and None until the request is read. `headers` are those of
    a successful reply: a filter over a stream may add to them until its first line is sent.
    """

    app: AppContext
    call: Call
    record: AccessLog
    errors: ErrorFormat
    deadline: float
    body: Any = None
    headers: dict[str, str] = field(default_factory=lambda: {"Cache-Control": "no-store"})

    @cached_property
    def engine(self) -> Rag:
        """The parts of an answer, traced after `trace`. Raises Misconfigured."""
        if self.app.engine is None:
            raise Misconfigured
        return self.app.engine

    def trace(self) -> None:
        """Begin the span of this request, which ends with the log line. Raises Misconfigured."""
        call, tracer = self.call, self.app.tracer
        self.record.span = tracer.start_request(f"{call.method} {call.route}", call.headers)
        self.engine = replace(self.engine, span=self.record.span)

    def identify(self, errors: ErrorFormat, body: Any = None) -> None:
        """Note the protocol, which is known once the body is read."""
        self.errors, self.body, self.record.dialect = errors, body, errors.name

    def json_reply(self, value: Json) -> Reply:
        """A successful reply."""
        return Reply(200, JSON, dumps(value), self.headers)

    def failed(self, failure: ChatError) -> Reply:
        """A failure with its status."""
        self.record.record_failure(failure)
        body = dumps(self.errors.error(failure, self.body))
        status = self.errors.status(failure, self.body)
        return Reply(status, JSON, body, dict(self.errors.headers(failure)))

    def late_error(self, failure: Exception) -> Json:
        """A failure after a stream has begun, logged."""
        return self.errors.error(self._logged(failure), self.body)

    async def begin(self, reply: Reply) -> Reply:
        """The reply with the first piece of its stream; a failure until then is an exception."""
        if reply.rest is None:
            return reply
        pieces = self._with_log_line(reply.rest)
        first = await cancel_on_disconnect(anext(pieces), self.call.is_disconnected)
        return replace(reply, body=first, rest=pieces)

    async def _with_log_line(self, pieces: ByteStream) -> ByteStream:
        """The same bytes; the log line is written at their end. A failure is a ChatError."""
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

    def _logged(self, failure: Exception) -> ChatError:
        """What the caller may know of a late failure; the log has the rest."""
        if not isinstance(failure, ChatError):
            self.record.log_exception(failure)
            failure = ChatError()
        self.record.record_failure(failure)
        return failure
