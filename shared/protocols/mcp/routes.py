"""POST /mcp: one message of the Model Context Protocol a request, without sessions; its methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from shared.domain.errors import BadRequest, UnsupportedMediaType
from shared.domain.events import ByteStream, Context, Events, collect
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.http.body import read_body
from shared.http.call import EVENTS, JSON, Json, Reply, acceptable_values, server_sent_event
from shared.protocols.exchange import Exchange, Route
from shared.protocols.mcp import documents, messages, operations, resources, tools
from shared.protocols.mcp.messages import Request, RpcMessage
from shared.rag.flow import StreamOptions, stream_answer
from shared.retrieval.base import shorten_query

INSTRUCTIONS = (
    "The documents of one organization. search finds passages, fetch reads a document or a page, "
    "ask answers a question with citations. Cite documents by their url."
)
CAPABILITIES: Json = {"tools": {}, "resources": {}}
PROGRESS_SECONDS = 1.0
JSON_RANGES = ("application/json", "application/*", "*/*")

Method = Callable[[Request], Awaitable[Reply]]
"""Answers a request. Raises ChatErrors."""


async def discover(request: Request) -> Reply:
    """Describe the server."""
    return request.reply(
        {"supportedVersions": list(messages.VERSIONS), **_description()}, messages.HOUR
    )


async def initialize(request: Request) -> Reply:
    """Agree on a version of the old era."""
    requested = request.message.params.get("protocolVersion")
    version = requested if requested in messages.OLD else messages.OLD[0]
    return request.reply(
        {"protocolVersion": version, **_description(), "serverInfo": messages.SERVER}
    )


def _description() -> Json:
    return {"capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}


async def ping(request: Request) -> Reply:
    """Answer that the server is alive."""
    return request.reply({})


async def list_tools(request: Request) -> Reply:
    """List the tools."""
    request.check_no_cursor()
    return request.reply({"tools": tools.TOOLS}, messages.HOUR)


async def call_tool(request: Request) -> Reply:
    """Call a tool, whose failures are results from here on. Raises InvalidParams before."""
    name, arguments = request.message.params.get("name"), tools.get_arguments(request.message)
    if not isinstance(name, str) or name not in TOOL_HANDLERS:
        raise messages.InvalidParams(f"name: must be one of {', '.join(TOOL_HANDLERS)}")
    request.exchange.identify(tools.error_format(name), request.message)
    return await TOOL_HANDLERS[name](request, arguments)


async def search(request: Request, arguments: Mapping[str, Any]) -> Reply:
    """Search for passages."""
    parsed = tools.parse_arguments(tools.Search, arguments)
    exchange, rag = request.exchange, request.exchange.rag
    query, span = shorten_query(parsed.query), exchange.record.span
    overrides = request.with_filters(parsed.overrides).with_defaults(rag.defaults)
    async with exchange.app.lookups:
        results = await rag.search(request.user, query, overrides, span)
    exchange.record.hits = len(results.sources)
    exchange.record.search_tokens = results.tokens
    hits = documents.format_hits(results.sources, request.base_url)
    return exchange.json_reply(tools.result(request.message, {"results": hits}))


async def fetch(request: Request, arguments: Mapping[str, Any]) -> Reply:
    """Return the text of a document, or of a page of it."""
    parsed = tools.parse_arguments(tools.Fetch, arguments)
    document = await request.fetch(parsed.id)
    return request.exchange.json_reply(tools.result(request.message, document))


async def ask(request: Request, arguments: Mapping[str, Any]) -> Reply:
    """Answer a question, with progress notifications if the client requests them."""
    parsed = tools.parse_arguments(tools.Ask, arguments)
    exchange, message = request.exchange, request.message
    exchange.take_slot()
    chat = ChatRequest(
        (Message("user", parsed.question),),
        request.with_filters(parsed.overrides),
        metadata=exchange.metadata(request.user),
    )
    deadline = exchange.deadline
    options = StreamOptions(chat, exchange.record, deadline, deadline)
    events = stream_answer(exchange.rag, options)
    media_types = acceptable_values(exchange.call.headers.get("accept", ""))
    if message.progress_token is None or EVENTS not in media_types:
        answer = await collect(events)
        return exchange.json_reply(tools.answer_result(message, answer, request.base_url))
    headers = {**exchange.headers, "X-Accel-Buffering": "no"}
    chunks = _stream(request, events)
    return Reply(200, EVENTS, b"", headers, chunks, deadline, server_sent_event)


async def _stream(request: Request, events: Events) -> ByteStream:
    """Yield a progress notification when the model has accepted and each second, then the
    response."""
    message, step = request.message, 1
    async with aclosing(events):
        context = await anext(events)
        assert isinstance(context, Context)
        text = f"Writing an answer from {len(context.sources)} passages."
        yield server_sent_event(messages.progress(message, step, text))
        answering = asyncio.ensure_future(collect(events))
        try:
            while not (await asyncio.wait({answering}, timeout=PROGRESS_SECONDS))[0]:
                step += 1
                yield server_sent_event(messages.progress(message, step, text))
            answer = replace(answering.result(), context=context)
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        yield server_sent_event(tools.answer_result(message, answer, request.base_url))


TOOL_HANDLERS: Mapping[str, Callable[[Request, Mapping[str, Any]], Awaitable[Reply]]] = {
    "search": search,
    "fetch": fetch,
    "ask": ask,
}
COMMON_METHODS: Mapping[str, Method] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": resources.list_resources,
    "resources/read": resources.read_resource,
    "resources/templates/list": resources.list_templates,
}
MODERN_METHODS = {**COMMON_METHODS, "server/discover": discover}
OLD_METHODS = {**COMMON_METHODS, "initialize": initialize, "ping": ping}


def find_method(message: RpcMessage) -> Method:
    """Return the method of a request. Raises MethodNotFound."""
    methods = MODERN_METHODS if message.modern else OLD_METHODS
    if message.method not in methods:
        raise messages.MethodNotFound
    return methods[message.method]


async def mcp(exchange: Exchange) -> Reply:
    """Answer a message. Raises ChatErrors."""
    exchange.identify(messages.ERRORS)
    exchange.start_span()
    headers = exchange.call.headers
    exchange.app.cross_origin.check_origin(headers)
    _check_accept(headers.get("accept", ""))
    user = exchange.app.access.get_user(headers)
    message = await _read_message(exchange)
    if message.id is None:  # a notification
        return Reply(202, JSON, b"", exchange.headers)
    exchange.identify(messages.ERRORS, message)
    messages.check(message, headers)
    return await exchange.wait_for(find_method(message)(Request(exchange, message, user)))


def _check_accept(accept: str) -> None:
    """Raise NotAcceptable if the header excludes JSON."""
    if accept and not any(each in JSON_RANGES for each in acceptable_values(accept)):
        raise messages.NotAcceptable


async def _read_message(exchange: Exchange) -> RpcMessage:
    """Read a message. Raises ParseError, InvalidRequest, and ChatErrors that quote nothing."""
    call, limits = exchange.call, exchange.app.limits
    try:
        body = await read_body(call, limits, forms=False)
    except BadRequest as failure:
        raise messages.ParseError(failure.message) from None
    except UnsupportedMediaType:
        raise UnsupportedMediaType from None  # the other message names the type that was sent
    return messages.parse(body.json, call.headers)


ROUTES = (
    Route(
        path="/mcp",
        methods=("POST",),
        handler=mcp,
        errors=messages.ERRORS,
        operations={"POST": operations.MESSAGE},
        usage="POST /mcp with one JSON-RPC message",
    ),
)
