"""The routes of OpenSearch's conversational search: one table for both ages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from shared.http.json_encoding import Json
from shared.protocols.opensearch import memory, pipelines
from shared.protocols.opensearch.memory_json import NEW, OLD, MemoryNames
from shared.protocols.opensearch.request_context import Handler, RequestContext, alive
from shared.protocols.opensearch.search import search

ML = "/_plugins/_ml"
MEMORY = f"{ML}/memory"


InAnAge = Callable[[MemoryNames, RequestContext], Awaitable[Json]]


def _of(names: MemoryNames, **methods: InAnAge) -> dict[str, Handler]:
    return {method: partial(handler, names) for method, handler in methods.items()}


# What is in braces is in `Call.path`.
ROUTES: Mapping[str, Mapping[str, Handler]] = {
    f"{MEMORY}/conversation": _of(OLD, POST=memory.begin, GET=memory.conversations),
    f"{MEMORY}/conversation/{{id}}": _of(
        OLD, POST=memory.add, GET=memory.interactions, DELETE=memory.delete
    ),
    MEMORY: _of(NEW, POST=memory.begin, GET=memory.conversations),
    f"{MEMORY}/{{id}}": _of(NEW, GET=memory.conversation, PUT=memory.rename, DELETE=memory.delete),
    f"{MEMORY}/{{id}}/messages": _of(NEW, POST=memory.add, GET=memory.interactions),
    f"{MEMORY}/message/{{id}}": _of(NEW, GET=memory.interaction, PUT=memory.annotate),
    f"{MEMORY}/message/{{id}}/traces": _of(NEW, GET=memory.traces),
    f"{MEMORY}/_search": _of(NEW, GET=memory.search, POST=memory.search),
    f"{MEMORY}/{{id}}/_search": _of(NEW, GET=memory.search, POST=memory.search),
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
