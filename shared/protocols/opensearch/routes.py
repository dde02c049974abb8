"""The routes of OpenSearch's conversational search: one table for both versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from shared.domain import errors
from shared.domain.errors import BadRequest, ChatError, Unsupported
from shared.http.body import admit_all, read_optional_json, require_object
from shared.http.call import Json, Reply
from shared.protocols.exchange import ErrorFormat, Exchange, Route, function_name
from shared.protocols.opensearch import memory, pipelines
from shared.protocols.opensearch.memory import V2_11, V2_12
from shared.protocols.opensearch.operations import describe
from shared.protocols.opensearch.search import IndexNotFound, ParsingError, search

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

# OpenSearch's types for our errors, the first match.
TYPES: Sequence[tuple[type[ChatError], str]] = (
    (ParsingError, "parsing_exception"),
    (IndexNotFound, "index_not_found_exception"),
    (errors.NotFound, "resource_not_found_exception"),
    (BadRequest, "illegal_argument_exception"),
    (errors.Unauthorized, "security_exception"),
    (errors.Forbidden, "security_exception"),
    (errors.MethodNotAllowed, "method_not_allowed_exception"),
    (errors.TooLarge, "content_too_long_exception"),
    (errors.UnsupportedMediaType, "media_type_header_exception"),
    (errors.TooManyRequests, "rejected_execution_exception"),
    (errors.Overloaded, "rejected_execution_exception"),
    (errors.Unsupported, "unsupported_operation_exception"),
    (errors.DeadlineExceeded, "timeout_exception"),
    (errors.Unavailable, "unavailable_exception"),
    (ChatError, "exception"),
)


def write_error(failure: ChatError, _body: Any) -> Json:
    """Format a failure."""
    kind = next(name for error_class, name in TYPES if isinstance(failure, error_class))
    field = f"{failure.field}: " if failure.field else ""
    cause = {"type": kind, "reason": f"{field}{failure.message}"}
    return {"error": {"root_cause": [cause], **cause}, "status": failure.status}


ERRORS = ErrorFormat(name="opensearch", write_error=write_error)

# What is changed there holds for all.
ADMINISTRATIVE = ("/_search/pipeline/{name}", "/_cluster/settings")


async def reply(handlers: Mapping[str, JsonHandler], exchange: Exchange) -> Reply:
    """Answer a call by the handler of its method. Raises ChatErrors."""
    is_search = search in handlers.values()
    if is_search:
        exchange.app.answer_slots.check()
    exchange.start_span()
    exchange.identify(ERRORS)
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
        errors=ERRORS,
        auth="administrative" if path in ADMINISTRATIVE else "function",
        operations=describe(handlers),
        usage=f"{' or '.join(handlers)} {path}, as OpenSearch's clients do",
        name=f"opensearch_{function_name(path)}",
    )


ROUTES = tuple(_route(path, handlers) for path, handlers in HANDLERS.items())
