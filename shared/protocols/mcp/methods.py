"""The methods of the protocol, and the calls of the tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from shared.domain.events import ByteStream, Context, Events, collect
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.http.call import Json, Reply, acceptable_values, server_sent_event
from shared.protocols.mcp import documents, resources, tools
from shared.protocols.mcp.messages import (
    HOUR,
    OLD,
    SERVER,
    VERSIONS,
    InvalidParams,
    MethodNotFound,
    Request,
    RpcMessage,
    progress,
)
from shared.rag.flow import StreamOptions, stream_answer
from shared.retrieval.base import shorten_query

INSTRUCTIONS = (
    "The documents of one organization. search finds passages, fetch reads a document or a page, "
    "ask answers a question with citations. Cite documents by their url."
)
CAPABILITIES: Json = {"tools": {}, "resources": {}}
PROGRESS_SECONDS = 1.0
EVENTS = "text/event-stream"

Method = Callable[[Request], Awaitable[Reply]]
"""Answers a request. Raises ChatErrors."""


async def discover(request: Request) -> Reply:
    """Describe the server."""
    return request.reply({"supportedVersions": list(VERSIONS), **_description()}, HOUR)


async def initialize(request: Request) -> Reply:
    """Agree on a version of the old era."""
    requested = request.message.params.get("protocolVersion")
    version = requested if requested in OLD else OLD[0]
    return request.reply({"protocolVersion": version, **_description(), "serverInfo": SERVER})


def _description() -> Json:
    return {"capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}


async def ping(request: Request) -> Reply:
    """Answer that the server is alive."""
    return request.reply({})


async def list_tools(request: Request) -> Reply:
    """List the tools."""
    request.check_no_cursor()
    return request.reply({"tools": tools.TOOLS}, HOUR)


async def call_tool(request: Request) -> Reply:
    """Call a tool, whose failures are results from here on. Raises InvalidParams before."""
    name, arguments = request.message.params.get("name"), tools.get_arguments(request.message)
    if not isinstance(name, str) or name not in TOOL_HANDLERS:
        raise InvalidParams(f"name: must be one of {', '.join(TOOL_HANDLERS)}")
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
        raise MethodNotFound
    return methods[message.method]
