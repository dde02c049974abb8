"""The routes of OpenSearch's conversational search: one table for both versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from shared.chat.errors import BadRequest, DeadlineExceeded
from shared.http.body import read_optional_json
from shared.http.call import Reply, cancel_on_disconnect
from shared.http.json_encoding import Json
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch import memory, pipelines
from shared.protocols.opensearch.errors import ERROR_FORMAT
from shared.protocols.opensearch.handler import JsonHandler
from shared.protocols.opensearch.memory_json import NEW, OLD, MemoryNames
from shared.protocols.opensearch.search import search
from shared.protocols.route import Route, function_name

ML = "/_plugins/_ml"
MEMORY = f"{ML}/memory"


VersionedHandler = Callable[[MemoryNames, Exchange], Awaitable[Json]]


def _handlers(names: MemoryNames, **methods: VersionedHandler) -> dict[str, JsonHandler]:
    return {method: partial(handler, names) for method, handler in methods.items()}


async def alive(_exchange: Exchange) -> Json:
    """For a client that asks whether there is a server."""
    return {}


HANDLERS: Mapping[str, Mapping[str, JsonHandler]] = {
    f"{MEMORY}/conversation": _handlers(OLD, POST=memory.create, GET=memory.conversations),
    f"{MEMORY}/conversation/{{id}}": _handlers(
        OLD, POST=memory.add, GET=memory.interactions, DELETE=memory.delete
    ),
    MEMORY: _handlers(NEW, POST=memory.create, GET=memory.conversations),
    f"{MEMORY}/{{id}}": _handlers(
        NEW, GET=memory.conversation, PUT=memory.rename, DELETE=memory.delete
    ),
    f"{MEMORY}/{{id}}/messages": _handlers(NEW, POST=memory.add, GET=memory.interactions),
    f"{MEMORY}/message/{{id}}": _handlers(NEW, GET=memory.interaction, PUT=memory.annotate),
    f"{MEMORY}/message/{{id}}/traces": _handlers(NEW, GET=memory.traces),
    f"{MEMORY}/_search": _handlers(NEW, GET=memory.search, POST=memory.search),
    f"{MEMORY}/{{id}}/_search": _handlers(NEW, GET=memory.search, POST=memory.search),
    "/_search/pipeline": {"GET": pipelines.every},
    "/_search/pipeline/{name}": {
        "GET": pipelines.get,
        "PUT": pipelines.put,
        "DELETE": pipelines.delete,
    },
    "/_search": {"GET": search, "POST": search},
    "/{index}/_search": {"GET": search, "POST": search},
    "/_cluster/settings": {"PUT": pipelines.settings},
    "/": {"HEAD": alive},
    f"{ML}/{{*path}}": dict.fromkeys(("GET", "POST", "PUT", "DELETE"), pipelines.models),
}

# What is changed there holds for all.
ADMINISTRATIVE = ("/_search/pipeline/{name}", "/_cluster/settings")


async def reply(handlers: Mapping[str, JsonHandler], exchange: Exchange) -> Reply:
    """Answer a call by the handler of its method."""
    exchange.trace()
    exchange.identify(ERROR_FORMAT)
    # Before the client is watched: to look for a disconnect can take a chunk from the body.
    exchange.body = await read_optional_json(exchange.call, exchange.app.limits, exchange.deadline)
    if not isinstance(exchange.body, dict):
        raise BadRequest("The body must be a JSON object.")
    answer = _answer(handlers[exchange.call.method], exchange)
    return await cancel_on_disconnect(answer, exchange.call.is_disconnected)


async def _answer(handler: JsonHandler, exchange: Exchange) -> Reply:
    try:
        async with asyncio.timeout_at(exchange.deadline):
            return exchange.json_reply(await handler(exchange))
    except TimeoutError:
        raise DeadlineExceeded from None


def _route(path: str, handlers: Mapping[str, JsonHandler]) -> Route:
    return Route(
        path=path,
        methods=tuple(handlers),
        handler=partial(reply, handlers),
        errors=ERROR_FORMAT,
        auth="administrative" if path in ADMINISTRATIVE else "function",
        usage=f"{' or '.join(handlers)} {path}, as OpenSearch's clients do",
        name=f"opensearch_{function_name(path)}",
    )


ROUTES = tuple(_route(path, handlers) for path, handlers in HANDLERS.items())
