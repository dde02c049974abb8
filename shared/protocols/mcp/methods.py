"""The methods of the protocol, with the resources, and the calls of the tools."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from shared.chat.citation_paths import decode_path
from shared.chat.errors import NotFound
from shared.chat.events import ByteStream, Context, Events, collect
from shared.chat.messages import Message
from shared.chat.overrides import UNSET, Overrides
from shared.chat.request import ChatRequest, User
from shared.http.call import Reply
from shared.http.json_encoding import Json, acceptable_media_types, server_sent_event
from shared.protocols.chat import end_with_error
from shared.protocols.exchange import Exchange
from shared.protocols.mcp import documents, tools
from shared.protocols.mcp.messages import (
    HOUR,
    OLD,
    SERVER,
    VERSIONS,
    InvalidParams,
    MethodNotFound,
    ResourceNotFound,
    RpcMessage,
    progress,
    response,
)
from shared.rag import filters
from shared.rag.filters import FilterContext
from shared.retrieval.base import shorten_query

INSTRUCTIONS = (
    "The documents of one organization. search finds passages, fetch reads a document or a page, "
    "ask answers a question with citations. Cite documents by their url."
)
CAPABILITIES: Json = {"tools": {}, "resources": {}}
TEMPLATE = {
    "uriTemplate": f"{documents.SCHEME}{{+path}}",
    "name": "document",
    "title": "A document",
    "description": "The text of a document by its path, or of one page: path#page=3.",
    "mimeType": documents.TEXT_TYPE,
}
PAGE_SIZE = 200  # files of a page of `resources/list`
PROGRESS_SECONDS = 1.0
EVENTS = "text/event-stream"
_CURSOR = "after:"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, the exchange that answers it, and its user."""

    exchange: Exchange
    message: RpcMessage
    user: User

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters."""
        return self.message.params

    def with_filters(self, overrides: Overrides = UNSET) -> Overrides:
        """Return the overrides with the security filters of the user."""
        return self.exchange.app.access.apply_filters(self.user, overrides)

    def reply(self, result: Json, ttl: int | None = None, scope: str = "public") -> Reply:
        """Return the reply with a result; see `response`."""
        return self.exchange.json_reply(response(self.message, result, ttl, scope))


Method = Callable[[Request], Awaitable[Reply]]
"""Answers a request. Raises ChatErrors."""


async def discover(request: Request) -> Reply:
    """Describe the server."""
    return request.reply({"supportedVersions": list(VERSIONS), **_description()}, HOUR)


async def initialize(request: Request) -> Reply:
    """Agree on a version of the old era."""
    requested = request.params.get("protocolVersion")
    version = requested if requested in OLD else OLD[0]
    return request.reply({"protocolVersion": version, **_description(), "serverInfo": SERVER})


def _description() -> Json:
    return {"capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}


async def ping(request: Request) -> Reply:
    """Answer that the server is alive."""
    return request.reply({})


async def list_tools(request: Request) -> Reply:
    """List the tools."""
    _check_no_cursor(request)
    return request.reply({"tools": tools.TOOLS}, HOUR)


async def list_templates(request: Request) -> Reply:
    """List the templates of URIs."""
    _check_no_cursor(request)
    return request.reply({"resourceTemplates": [TEMPLATE]}, HOUR)


def _check_no_cursor(request: Request) -> None:
    if request.params.get("cursor") is not None:
        raise InvalidParams("cursor: is not known here: this list has one page")


async def list_resources(request: Request) -> Reply:
    """List the files of which the user may see a passage, in pages."""
    after = _parse_cursor(request.params.get("cursor"))
    retriever, overrides = request.exchange.engine.retriever, request.with_filters()
    # One more than a page shows whether there is another page.
    files = await retriever.list_files(request.user, overrides, after, PAGE_SIZE + 1)
    page = files[:PAGE_SIZE]
    result: Json = {"resources": [_format_resource(file) for file in page]}
    if len(files) > PAGE_SIZE:
        result["nextCursor"] = _format_cursor(page[-1])
    return request.reply(result, 0, "private")


def _format_resource(file: str) -> Json:
    return {
        "uri": documents.to_uri(file),
        "name": decode_path(file),
        "mimeType": documents.TEXT_TYPE,
    }


def _format_cursor(file: str) -> str:
    return base64.urlsafe_b64encode(f"{_CURSOR}{file}".encode()).decode()


def _parse_cursor(cursor: Any) -> str:
    """Return the file that a page comes after. Raises InvalidParams."""
    if cursor is None:
        return ""
    try:
        text = base64.urlsafe_b64decode(cursor).decode()
    except (TypeError, ValueError, binascii.Error):
        text = ""
    if not text.startswith(_CURSOR):
        raise InvalidParams("cursor: is not one of this server")
    return text.removeprefix(_CURSOR)


async def read_resource(request: Request) -> Reply:
    """Return the text of a document, or of a page of it. Raises ResourceNotFound."""
    uri = request.params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams("uri: is required, a string")
    if not uri.startswith(documents.SCHEME) or len(uri) > documents.MAX_ID:
        raise ResourceNotFound(uri)
    try:
        document = await _fetch(request, documents.to_id(uri))
    except NotFound:
        raise ResourceNotFound(uri) from None
    contents = {"uri": uri, "mimeType": documents.TEXT_TYPE, "text": document["text"]}
    return request.reply({"contents": [contents]}, 0, "private")


async def _fetch(request: Request, id: str) -> Json:
    retriever, overrides = request.exchange.engine.retriever, request.with_filters()
    passages = await documents.find_passages(retriever, request.user, id, overrides)
    request.exchange.record.hits = len(passages)
    return documents.format_document(id, passages, request.exchange.app.base_url)


async def call_tool(request: Request) -> Reply:
    """Call a tool, whose failures are results from here on. Raises InvalidParams before."""
    name, arguments = request.params.get("name"), tools.get_arguments(request.message)
    if not isinstance(name, str) or name not in TOOL_HANDLERS:
        raise InvalidParams(f"name: must be one of {', '.join(TOOL_HANDLERS)}")
    request.exchange.identify(tools.error_format(name), request.message)
    return await TOOL_HANDLERS[name](request, arguments)


async def search(request: Request, arguments: Mapping[str, Any]) -> Reply:
    """Search for passages."""
    parsed = tools.parse_arguments(tools.Search, arguments)
    exchange, engine = request.exchange, request.exchange.engine
    overrides = request.with_filters(parsed.overrides).with_defaults(engine.defaults)
    results = await engine.search(request.user, shorten_query(parsed.query), overrides)
    exchange.record.hits = len(results.sources)
    hits = documents.format_hits(results.sources, exchange.app.base_url)
    return exchange.json_reply(tools.result(request.message, {"results": hits}))


async def fetch(request: Request, arguments: Mapping[str, Any]) -> Reply:
    """Return the text of a document, or of a page of it."""
    parsed = tools.parse_arguments(tools.Fetch, arguments)
    document = await _fetch(request, parsed.id)
    return request.exchange.json_reply(tools.result(request.message, document))


async def ask(request: Request, arguments: Mapping[str, Any]) -> Reply:
    """Answer a question, with progress notifications if the client requests them."""
    parsed = tools.parse_arguments(tools.Ask, arguments)
    exchange, message = request.exchange, request.message
    await exchange.acquire_slot()
    chat = ChatRequest(
        (Message("user", parsed.question),),
        request.with_filters(parsed.overrides),
        metadata=exchange.metadata(request.user),
    )
    deadline = exchange.deadline
    context = FilterContext(chat, exchange.record, deadline, deadline)
    events = filters.answer(exchange.engine, context)
    media_types = acceptable_media_types(exchange.call.headers.get("accept", ""))
    if message.progress_token is None or EVENTS not in media_types:
        answer = await collect(events)
        return exchange.json_reply(tools.answer_result(message, answer, exchange.app.base_url))
    lines = end_with_error(
        _stream(request, events), lambda failure: server_sent_event(exchange.late_error(failure))
    )
    headers = {**exchange.headers, "X-Accel-Buffering": "no"}
    return Reply(200, EVENTS, b"", headers, lines, deadline)


async def _stream(request: Request, events: Events) -> ByteStream:
    """Yield a progress notification when the model has accepted and each second, then the
    response."""
    message, step = request.message, 1
    async with aclosing(events):
        context = await anext(events)
        assert isinstance(context, Context)
        text = f"Writing an answer from {len(context.sources)} passages."
        yield server_sent_event(progress(message, step, text))
        answering = asyncio.ensure_future(collect(events))
        try:
            while not (await asyncio.wait({answering}, timeout=PROGRESS_SECONDS))[0]:
                step += 1
                yield server_sent_event(progress(message, step, text))
            answer = replace(answering.result(), context=context)
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        base_url = request.exchange.app.base_url
        yield server_sent_event(tools.answer_result(message, answer, base_url))


TOOL_HANDLERS: Mapping[str, Callable[[Request, Mapping[str, Any]], Awaitable[Reply]]] = {
    "search": search,
    "fetch": fetch,
    "ask": ask,
}
COMMON_METHODS: Mapping[str, Method] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/read": read_resource,
    "resources/templates/list": list_templates,
}
MODERN_METHODS = {**COMMON_METHODS, "server/discover": discover}
OLD_METHODS = {**COMMON_METHODS, "initialize": initialize, "ping": ping}


def find_method(message: RpcMessage) -> Method:
    """Return the method of a request. Raises MethodNotFound."""
    methods = MODERN_METHODS if message.modern else OLD_METHODS
    if message.method not in methods:
        raise MethodNotFound
    return methods[message.method]
