"""Call -> Reply: the one place where errors are caught. It knows seams and dialects, no adapter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from shared.app.negotiation import pick
from shared.app.response_writer import FRESH, JSON, ResponseWriter, noticed, whole
from shared.chat.errors import (
    BadRequest,
    ChatError,
    ClientDisconnected,
    DeadlineExceeded,
    MethodNotAllowed,
    Misconfigured,
    NotFound,
)
from shared.chat.events import Events, collect
from shared.chat.request import ChatRequest
from shared.files.base import Files
from shared.http.auth import AccessPolicy
from shared.http.body import read_body, read_optional_json
from shared.http.call import Call, Limits, Reply, cancel_on_disconnect, without_long_headers
from shared.http.cross_origin import CrossOriginPolicy
from shared.http.health import Health
from shared.http.json_encoding import Json, dumps, negotiate_media_type
from shared.memory.base import Memory
from shared.memory.chat_history import ChatHistory
from shared.models.router import Router
from shared.protocols.aog import routes as aog
from shared.protocols.content.handler import FileHandler
from shared.protocols.context_json import CONVERSATION
from shared.protocols.dialect import ErrorFormat
from shared.protocols.openai import routes as door
from shared.protocols.openai.request import LEFT_OUT
from shared.protocols.openai.routes import OpenAIAccess
from shared.protocols.opensearch import routes as opensearch
from shared.protocols.opensearch.errors import ERROR_FORMAT as OPENSEARCH
from shared.protocols.opensearch.request_context import RequestContext, SearchService
from shared.rag import citation_numbers, flow, followups
from shared.rag.deadline import with_deadline
from shared.rag.flow import Rag
from shared.rag.tracing import with_tracing
from shared.telemetry.access_log import AccessLog
from shared.telemetry.spans import NOOP_TRACER, Tracer

LARGE = 256 * 1024  # bytes
GONE = 499  # what proxies log for a client that left; nobody receives it

ASKING = (
    "POST {route} with Content-Type: application/json and a body such as "
    '{{"messages": [{{"role": "user", "content": "..."}}]}}'
)
# The methods of each route, and the right call.
ROUTES: Mapping[str, tuple[str, str]] = {
    "/chat": ("POST", ASKING),
    "/chat/stream": ("POST", ASKING),
    "/ask": ("POST", ASKING),
    "/health": ("GET, HEAD", "GET {route}"),
    "/content/{path}": ("GET, HEAD", "GET {route}, where path is a citation's"),
    **{
        route: (", ".join(methods), f"{' or '.join(methods)} {{route}}, as OpenSearch's clients do")
        for route, methods in opensearch.ROUTES.items()
    },
    **{route: (methods, f"{methods} {{route}}") for route, methods in aog.ROUTES.items()},
    **{route: (methods, f"{methods} {{route}}") for route, methods in door.ROUTES.items()},
    **dict.fromkeys(door.CHATS, ("POST", ASKING)),
    aog.CHAT: ("POST", ASKING.replace("{route}", aog.EXAMPLE)),
}
# What is told of the models without asking one.
TOLD: Mapping[str, Callable[[Call, Router], Json]] = {
    **dict.fromkeys((aog.SERVICES, aog.PROVIDERS), aog.told),
    **dict.fromkeys((*door.LISTS, *door.ONES), door.told),
}


@dataclass(frozen=True, slots=True)
class Service:
    """Answers calls. `problems` are the settings that are wrong: then it only says so.

    `files` are those behind citations, `memory` keeps conversations: None where there are none.
    `health` is what `/health` tells. `index` is what OpenSearch's clients call the one index.
    `openai_access` says which of OpenAI's clients may call, `links` what links to documents
    begin with.
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
    openai_access: OpenAIAccess = field(default_factory=OpenAIAccess)
    links: str = ""
    tracer: Tracer = NOOP_TRACER
    cross_origin: CrossOriginPolicy | None = None
    problems: tuple[str, ...] = ()

    async def reply(self, call: Call) -> Reply:
        """Answer one call. Never raises, but for being cancelled."""
        call = replace(call, headers=without_long_headers(call.headers))
        exchange = ResponseWriter(
            call, AccessLog(call.id, call.method, call.route), _voice(call.route)
        )
        try:
            reply = await self._dispatch(exchange)
        except ChatError as failure:
            reply = exchange.failed(failure)
        except ClientDisconnected:
            exchange.record.outcome = "client gone"
            reply = Reply(GONE, JSON, b"")
        except Exception as bug:
            exchange.record.log_exception(bug)
            reply = exchange.failed(ChatError())
        exchange.record.status = reply.status
        if reply.rest is None:
            exchange.record.write()
        return _finished(reply, call)

    async def _dispatch(self, exchange: ResponseWriter) -> Reply:
        if self.cross_origin is not None:
            self.cross_origin.check(exchange.call.method, exchange.call.headers)
        aog.check(exchange.call)
        _check_method(exchange.call)
        if exchange.call.route == "/health":
            return await self._health(exchange.call)
        if self.engine is None:
            raise Misconfigured
        if exchange.call.route == "/content/{path}":
            return await self._content(self.engine, exchange)
        if exchange.call.route in opensearch.ROUTES:
            return await cancel_on_disconnect(
                self._opensearch(self.engine, exchange), exchange.call.is_disconnected
            )
        if exchange.call.route in door.ROUTES:
            self.openai_access.check(self.access, exchange.call.headers)
        if told := TOLD.get(exchange.call.route):
            exchange.record.dialect = exchange.error_format.name
            return Reply(200, JSON, dumps(told(exchange.call, self.engine.models)), FRESH)
        return await self._chat(self.engine, exchange)

    async def _opensearch(self, engine: Rag, exchange: ResponseWriter) -> Reply:
        call = exchange.call
        exchange.record.dialect = exchange.error_format.name
        engine = with_tracing(engine, exchange.traced(self.tracer))
        store = SearchService(
            engine, self.access, self.memory, self.index, self.limits.storage_seconds
        )
        deadline = asyncio.get_running_loop().time() + self.limits.request_seconds
        body = await read_optional_json(call, self.limits, deadline)
        if not isinstance(body, dict):
            raise BadRequest("The body must be a JSON object.")
        try:
            async with asyncio.timeout_at(deadline):
                answer = opensearch.ROUTES[call.route][call.method](
                    RequestContext(store, call, body, deadline, exchange.record)
                )
                return Reply(200, JSON, dumps(await answer), FRESH)
        except TimeoutError:
            raise DeadlineExceeded from None

    async def _content(self, engine: Rag, exchange: ResponseWriter) -> Reply:
        if self.files is None:
            raise NotFound("This deployment serves no documents.")
        call = exchange.call
        deadline = asyncio.get_running_loop().time() + self.limits.request_seconds
        shelf = FileHandler(self.files, engine.retriever, self.access)
        reply = await cancel_on_disconnect(shelf.reply(call, deadline), call.is_disconnected)
        return await cancel_on_disconnect(exchange.begun(reply), call.is_disconnected)

    async def _chat(self, engine: Rag, exchange: ResponseWriter) -> Reply:
        call, span = exchange.call, exchange.traced(self.tracer)
        deadline = asyncio.get_running_loop().time() + self.limits.request_seconds
        forms = pick(call.route, None).forms
        body = await read_body(call, self.limits, deadline, forms)
        dialect = pick(call.route, body.json)
        exchange.speaks(dialect, body.json)
        # In a thread where it is large: reading it would hold up every other answer.
        large = body.size > LARGE
        read = await asyncio.to_thread(dialect.parse, body) if large else dialect.parse(body)
        asked = self._allowed(engine, call, self.openai_access.understood(call, read))
        streams = dialect.streams(call.route, body.json)
        keeper = self._keeper(call, asked, streams)
        if keeper is not None:
            asked = await cancel_on_disconnect(keeper.with_history(asked), call.is_disconnected)
        events = self._events(with_tracing(engine, span), asked, keeper, deadline)
        if dialect.numbered:
            events = citation_numbers.number_citations(events)
        events = exchange.record.observe(with_deadline(deadline, events))
        if not streams:
            return whole(
                dialect, asked, await cancel_on_disconnect(collect(events), call.is_disconnected)
            )
        lines = exchange.lines(dialect, asked, events)
        first = await cancel_on_disconnect(anext(lines), call.is_disconnected)
        kind = negotiate_media_type(call.headers.get("accept", ""), dialect.media_type)
        return Reply(200, kind, first, noticed(dialect, exchange.notes), lines, deadline)

    def _allowed(self, engine: Rag, call: Call, asked: ChatRequest) -> ChatRequest:
        """The request with its user, the filters that hold for it, and a name and a time."""
        user = self.access.get_user(call.headers)
        overrides = self.access.apply_filters(user, asked.overrides)
        if not engine.client_prompts:
            asked = _without_instructions(asked)
        return replace(
            asked,
            user=user,
            overrides=overrides,
            id=call.id,
            created=int(time.time()),
            links=self.links,
        )

    def _keeper(self, call: Call, asked: ChatRequest, streams: bool) -> ChatHistory | None:
        """Where this chat is kept; None where that is not asked for, or not possible."""
        state = asked.state
        if self.memory is None or not isinstance(state, dict) or CONVERSATION not in state:
            return None
        conversation = state[CONVERSATION]
        if not isinstance(conversation, str | None):
            raise BadRequest("must be a string or null", field=CONVERSATION)
        owner = self.access.get_owner(call.headers)
        return ChatHistory(self.memory, owner, conversation, streams)

    def _events(
        self, engine: Rag, asked: ChatRequest, keeper: ChatHistory | None, deadline: float
    ) -> Events:
        events = flow.answer(engine, asked)
        if asked.overrides.suggest_followup_questions:
            events = followups.extract_followups(events)
        if keeper is None:
            return events
        return keeper.store_answer(
            asked, with_deadline(deadline - self.limits.storage_seconds, events)
        )

    async def _health(self, call: Call) -> Reply:
        if self.problems:
            told = {"error": "Settings are wrong or missing.", "settings": list(self.problems)}
            return Reply(503, JSON, dumps(told))
        # HEAD is for whoever only wants to know that the app runs: it asks no part.
        failing = {} if call.method == "HEAD" else await self.health.failures()
        status = {"status": "degraded" if failing else "ok"}
        more = {"failing": failing} if failing else {}
        return Reply(200, JSON, dumps({**status, **self.health.names, **more}), FRESH)


def _without_instructions(asked: ChatRequest) -> ChatRequest:
    """The request where a client may not instruct the model. Raises BadRequest.

    Its instructions are left out where its protocol is lenient, be they an image alone.
    """
    system = [place for place, said in enumerate(asked.messages) if said.role == "system"]
    if asked.lenient and system:
        said = tuple(each for each in asked.messages if each.role != "system")
        return replace(asked, messages=said, notes=(*asked.notes, LEFT_OUT))
    if asked.lenient or asked.verbatim:
        return asked
    if words := [place for place in system if asked.messages[place].content.strip()]:
        place = f"messages[{words[0]}].role"
        raise BadRequest("must be user or assistant in this deployment", field=place)
    return asked


def _voice(route: str) -> ErrorFormat:
    """Who tells of a failure before the body is read."""
    return OPENSEARCH if route in opensearch.ROUTES else pick(route, None)


def _check_method(call: Call) -> None:
    allow, example = ROUTES[call.route]
    if call.method not in allow.split(", "):
        raise MethodNotAllowed(f"Send {example.format(route=call.route)}.", allow=allow)


def _finished(reply: Reply, call: Call) -> Reply:
    headers = {**reply.headers, "X-Content-Type-Options": "nosniff", "x-request-id": call.id}
    body = b"" if call.method == "HEAD" else reply.body
    return replace(reply, headers=headers, body=body)
