"""Routes, and the exchange of one call and its reply, from the first byte to the log line."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from shared.domain.errors import (
    ChatError,
    ClientDisconnected,
    DeadlineExceeded,
    MethodNotAllowed,
    Misconfigured,
)
from shared.domain.events import ByteStream
from shared.domain.request import RequestMetadata, User
from shared.http.auth import AccessPolicy, ApiKeyPolicy, CrossOriginPolicy
from shared.http.body import Body, read_body
from shared.http.call import (
    JSON,
    LOOKUPS_AT_ONCE,
    AnswerSlots,
    Call,
    Json,
    Limits,
    Reply,
    cancel_on_disconnect,
    dumps,
    without_long_headers,
)
from shared.memory.base import Memory
from shared.protocols.openapi.operation import Operation
from shared.rag.inputs import Rag
from shared.telemetry.access_log import NOOP_TRACER, AccessLog, Tracer

C = TypeVar("C")
T = TypeVar("T")
READ = ("GET", "HEAD")
EVERY_METHOD = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
CLIENT_GONE = "client gone"  # the outcome of a request whose client left
CLIENT_CLOSED_REQUEST = 499  # what proxies log for a client that left; nobody receives it
# Headers of every response; a page of another origin may read the exposed ones.
COMMON_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Expose-Headers": "Retry-After, WWW-Authenticate, x-chat-notice, x-request-id",
}


@dataclass(frozen=True, slots=True)
class App:
    """The parts of the app."""

    rag: Rag | None = None  # None if settings are wrong
    access: AccessPolicy = field(default_factory=AccessPolicy)
    limits: Limits = field(default_factory=Limits)
    memory: Memory | None = None  # stored conversations
    api_key: ApiKeyPolicy = field(default_factory=ApiKeyPolicy)
    links: str = ""  # the beginning of links to documents
    tracer: Tracer = NOOP_TRACER
    cross_origin: CrossOriginPolicy = field(default_factory=CrossOriginPolicy)
    problems: tuple[str, ...] = ()  # sentences about wrong settings
    answer_slots: AnswerSlots = field(default_factory=AnswerSlots)  # one for each answer
    # What reads the index without an answer waits for one of these.
    lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKUPS_AT_ONCE))
    configs: tuple[object, ...] = ()  # of single protocols

    def config(self, kind: type[C]) -> C:
        """Return the configuration of a protocol, by its type: without one its default."""
        return next((each for each in self.configs if isinstance(each, kind)), None) or kind()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFormat:
    """How a protocol writes an error, given the request's body: None if it is not parsed."""

    name: str  # of the protocol, in the log
    write_error: Callable[[ChatError, Any], Json]
    # Those of the error, unless the protocol has others.
    status: Callable[[ChatError, Any], int] = lambda failure, _body: failure.status
    headers: Callable[[ChatError], Mapping[str, str]] = lambda failure: failure.headers
    # Of a response that is an error, not of one that ends a stream.
    encode_error: Callable[[Json], bytes] = dumps
    error_media_type: str = JSON


@dataclass
class Exchange:
    """A call and its reply: `run` is the whole way of both."""

    app: App
    call: Call
    routes: Mapping[str, Route]  # of the app, by path
    body: Any = None  # JSON, when it is parsed
    # Of a successful reply: a transform of a stream may add some until its first line is sent.
    headers: dict[str, str] = field(default_factory=lambda: {"Cache-Control": "no-store"})
    route: Route = field(init=False)
    record: AccessLog = field(init=False)  # the log line
    errors: ErrorFormat = field(init=False)  # of the route, until `identify`
    deadline: float = field(init=False)  # of the whole reply, by the event loop's clock
    cleanup: ExitStack = field(default_factory=ExitStack)  # releases the slot

    def __post_init__(self) -> None:
        call, limits = self.call, self.app.limits
        self.call = replace(call, headers=without_long_headers(call.headers))
        self.route = self.routes[call.route]
        self.record, self.errors = AccessLog(call.id, call.method, call.route), self.route.errors
        self.deadline = asyncio.get_running_loop().time() + limits.request_seconds

    async def run(self) -> Reply:
        """Answer the call. Never raises, but for being cancelled."""
        with self.cleanup as cleanup:
            try:
                reply = await self._start()
            except ClientDisconnected:
                self.record.outcome = CLIENT_GONE
                reply = Reply(CLIENT_CLOSED_REQUEST, JSON, b"")
            except Exception as failure:
                reply = self._error_reply(self.record.record_failure(failure))
            self.record.status = reply.status
            if reply.rest is None:
                self.record.write()
            else:
                self.cleanup = cleanup.pop_all()  # for `_send`
        headers = {**reply.headers, **COMMON_HEADERS, "x-request-id": self.call.id}
        body = b"" if self.call.method == "HEAD" else reply.body
        return replace(reply, headers=headers, body=body)

    async def _start(self) -> Reply:
        """Return the handler's reply, with the first chunk of its stream. Raises all failures."""
        call, route = self.call, self.route
        self.app.cross_origin.check(call.method, call.headers)
        usage = route.usage or f"{', '.join(route.methods)} {route.path}"
        check_method(call.method, route.methods, usage)
        reply = await route.handler(self)
        if reply.rest is None:
            return reply
        rest = self._send(reply.rest, reply.write_last)
        first = await cancel_on_disconnect(anext(rest), call.is_disconnected)
        return replace(reply, body=first, rest=rest)

    async def _send(
        self, chunks: ByteStream, write_last: Callable[[Json], bytes] | None
    ) -> ByteStream:
        """Pass the chunks of a reply through, and write the log line at their end.

        An error after the first one becomes the last one. Raises ChatErrors without `write_last`.
        """
        started = False
        self.record.outcome = CLIENT_GONE  # until the end is reached, or an error is logged
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    started = True
                    yield chunk
            self.record.outcome = "ok"
        except Exception as failure:
            if not started:
                raise
            error = self.record.record_failure(failure)
            if write_last is None:
                raise error from None
            yield write_last(self.errors.write_error(error, self.body))
        finally:
            if started:
                self.record.write()
                self.cleanup.close()

    def _error_reply(self, error: ChatError) -> Reply:
        errors = self.errors
        body = errors.encode_error(errors.write_error(error, self.body))
        status, headers = errors.status(error, self.body), dict(errors.headers(error))
        return Reply(status, errors.error_media_type, body, headers)

    @property
    def rag(self) -> Rag:
        """The parts of an answer. Raises Misconfigured."""
        if self.app.rag is None:
            raise Misconfigured
        return self.app.rag

    def start_span(self) -> None:
        """Start the span of this call, which ends with the log line. Raises Misconfigured."""
        call, tracer = self.call, self.app.tracer
        self.record.span = tracer.start_request(f"{call.method} {call.route}", call.headers)
        if self.app.rag is None:
            raise Misconfigured

    def take_slot(self) -> None:
        """Take one of the slots for answers until the end of the reply.

        Raises Overloaded, TooManyRequests.
        """
        user = self.app.access.get_oid(self.call.headers)
        self.cleanup.callback(self.app.answer_slots.acquire(user))

    async def read_body(self, forms: bool = False) -> Body:
        """Read the body of a question, with `forms` also a form, and take a slot for its answer.

        Raises ChatErrors.
        """
        self.app.answer_slots.check()  # before the body of a question is read that is refused
        self.start_span()
        return await read_body(self.call, self.app.limits, forms, self.take_slot)

    async def wait_for(self, work: Awaitable[T]) -> T:
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

    def identify(self, errors: ErrorFormat, body: Any = None) -> None:
        """Set the protocol, which depends on the body, and the body."""
        self.errors, self.body, self.record.dialect = errors, body, errors.name

    def metadata(self, user: User) -> RequestMetadata:
        """Return the metadata of a chat request of the user that arrives now."""
        return RequestMetadata(user, self.call.id, int(time.time()), self.app.links)

    def json_reply(self, value: Json) -> Reply:
        """Return a successful reply."""
        return Reply(200, JSON, dumps(value), self.headers)


Handler = Callable[[Exchange], Awaitable[Reply]]
"""Answers a call, with a stream that is not started. Raises ChatErrors."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Route:
    """A path with its methods and its handler. It equals itself alone."""

    path: str  # `Call.path` has the value of its parameter
    methods: Sequence[str]
    handler: Handler
    errors: ErrorFormat  # writes failures until the body is parsed
    # The key that the host requires, if the settings require keys: "anonymous" for none,
    # "administrative" for a function key to read and the master key to change.
    auth: Literal["function", "anonymous", "administrative"] = "function"
    # By method: what the OpenAPI document says. Without any the route is not in it.
    operations: Mapping[str, Operation] = field(default_factory=dict)
    usage: str = ""  # a correct call, for the message of a 405
    # Of the Azure function, if they differ from `path`.
    name: str = ""
    pattern: str = ""


def check_method(method: str, allowed: Sequence[str], usage: str) -> None:
    """Raise MethodNotAllowed for a method that is not allowed."""
    if method not in allowed:
        raise MethodNotAllowed(f"Send {usage}.", allow=", ".join(allowed))


def function_name(path: str) -> str:
    """Return the name of an Azure function for a path."""
    return re.sub(r"[\W_]+", "_", path).strip("_") or "root"
