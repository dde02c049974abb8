"""The routes of OpenSearch's conversational search: one table for both versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from shared.domain.errors import Unsupported
from shared.http.body import admit_all, read_optional_json, require_object
from shared.http.call import Reply
from shared.http.json_encoding import Json
from shared.protocols.exchange import Exchange, Route, function_name
from shared.protocols.opensearch import memory, pipelines
from shared.protocols.opensearch.errors import ERROR_FORMAT
from shared.protocols.opensearch.memory import V2_11, V2_12
from shared.protocols.opensearch.search import search

ML = "/_plugins/_ml"
MEMORY = f"{ML}/memory"
NO_MEMORY_SEARCH = (
    "Conversations and messages cannot be searched here: list them, the newest first."
)
NO_TRACES = "There are no traces here: a message is all that is stored of an answer."
NO_MODELS = (
    "Models are configured in the settings of the deployment (AZURE_OPENAI_CHAT_DEPLOYMENT, "
    "OPENAI_CHAT_MODEL): there are no connectors, model groups, tasks or agents. A pipeline's "
    "model_id is the name of the configured model."
)

JsonHandler = Callable[[Exchange], Awaitable[Json]]
"""Answers a call, whose body is an object, with JSON. Raises ChatErrors."""


async def alive(_exchange: Exchange) -> Json:
    """Answer a client that checks whether there is a server."""
    return {}


async def _reject(reason: str, _exchange: Exchange) -> Json:
    raise Unsupported(reason)


def _unsupported(reason: str, *methods: str) -> dict[str, JsonHandler]:
    """Return handlers that raise Unsupported."""
    return dict.fromkeys(methods, partial(_reject, reason))


HANDLERS: Mapping[str, Mapping[str, JsonHandler]] = {
    f"{MEMORY}/conversation": {"POST": V2_11.create_conversation, "GET": V2_11.list_conversations},
    f"{MEMORY}/conversation/{{id}}": {
        "POST": V2_11.add_interaction,
        "GET": V2_11.list_interactions,
        "DELETE": memory.delete_conversation,
    },
    MEMORY: {"POST": V2_12.create_conversation, "GET": V2_12.list_conversations},
    f"{MEMORY}/{{id}}": {
        "GET": V2_12.get_conversation,
        "PUT": memory.rename_conversation,
        "DELETE": memory.delete_conversation,
    },
    f"{MEMORY}/{{id}}/messages": {"POST": V2_12.add_interaction, "GET": V2_12.list_interactions},
    f"{MEMORY}/message/{{id}}": {"GET": V2_12.get_interaction, "PUT": memory.annotate_interaction},
    f"{MEMORY}/message/{{id}}/traces": _unsupported(NO_TRACES, "GET"),
    f"{MEMORY}/_search": _unsupported(NO_MEMORY_SEARCH, "GET", "POST"),
    f"{MEMORY}/{{id}}/_search": _unsupported(NO_MEMORY_SEARCH, "GET", "POST"),
    "/_search/pipeline": {"GET": pipelines.list_pipelines},
    "/_search/pipeline/{name}": {
        "GET": pipelines.get_pipeline,
        "PUT": pipelines.put_pipeline,
        "DELETE": pipelines.delete_pipeline,
    },
    "/_search": {"GET": search, "POST": search},
    "/{index}/_search": {"GET": search, "POST": search},
    "/_cluster/settings": {"PUT": pipelines.put_settings},
    "/": {"HEAD": alive},
    f"{ML}/{{*path}}": _unsupported(NO_MODELS, "GET", "POST", "PUT", "DELETE"),
}

# What is changed there holds for all.
ADMINISTRATIVE = ("/_search/pipeline/{name}", "/_cluster/settings")


async def reply(handlers: Mapping[str, JsonHandler], exchange: Exchange) -> Reply:
    """Answer a call by the handler of its method. Raises ChatErrors."""
    is_search = search in handlers.values()
    if is_search:
        exchange.app.answer_slots.check()
    exchange.start_span()
    exchange.identify(ERROR_FORMAT)
    # Before the client is watched: to look for a disconnect can take a chunk from the body.
    admit = exchange.take_slot if is_search else admit_all
    exchange.body = await read_optional_json(exchange.call, exchange.app.limits, admit)
    require_object(exchange.body)
    return exchange.json_reply(await exchange.wait_for(handlers[exchange.call.method](exchange)))


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
