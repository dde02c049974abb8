"""What the OpenAPI document says of OpenSearch's memory API, search and pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from shared.protocols.openapi.operation import (
    OBJECT,
    STRING,
    WITH_ANSWER,
    WITH_BODY,
    Operation,
    Schema,
    object_schema,
)
from shared.protocols.opensearch import memory, pipelines
from shared.protocols.opensearch.generation import Question
from shared.protocols.opensearch.memory import V2_11, V2_12, MemoryBody, ObjectInfoBody, Paging
from shared.protocols.opensearch.pipelines import RAG, Pipeline
from shared.protocols.opensearch.search import MAX_HITS, search

ERROR = object_schema(error=object_schema(type=STRING, reason=STRING), status={"type": "integer"})
SIZE: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_HITS}
FROM: Schema = {"const": 0}
OPTIONAL: Schema = {"type": ["object", "null"]}
QUESTION = {**OPTIONAL, "properties": {"generative_qa_parameters": {"anyOf": [Question, OPTIONAL]}}}
SEARCH: Schema = {
    "type": "object",
    "properties": {
        "query": {
            **OPTIONAL,
            "description": "One of `match`, `query_string`, `match_all`, or `neural` with a "
            "`query_text`. Without one the search is for the question.",
        },
        "size": {"anyOf": [SIZE, {"type": "string", "pattern": "^[0-9]{1,9}$"}, {"type": "null"}]},
        "_source": {
            "description": "Which fields a hit has: true, false, a name, a list of names, or an "
            "object with `includes` and `excludes`. Names may have `*`.",
        },
        "ext": QUESTION,
    },
}
SEARCH_QUERY: Mapping[str, Schema] = {
    **dict.fromkeys(("q", "_source", "_source_includes", "_source_excludes"), STRING),
    "size": SIZE,
    "from": FROM,
    "search_pipeline": STRING,
}
PIPELINE = object_schema(
    response_processors={
        "type": "array",
        "items": object_schema(**{RAG: Pipeline}),
        "minItems": 1,
        "maxItems": 1,
    }
)
SETTINGS: Schema = {
    "type": "object",
    "properties": {"persistent": OBJECT, "transient": OBJECT},
    "additionalProperties": False,
    "minProperties": 1,
}
_operation = partial(Operation, tag="OpenSearch", error=ERROR, errors=(*WITH_BODY, 404, 501))
_list = partial(_operation, query=Paging.model_json_schema()["properties"])
_create = partial(_operation, summary="Create a conversation", body_required=False)
CREATE = _create(request=MemoryBody)
LIST = _list(summary="List the conversations, the newest first")
LIST_INTERACTIONS = _list(summary="List the interactions of a conversation")
DELETE = _operation(summary="Delete a conversation with its interactions")
_add = partial(_operation, summary="Add an interaction to a conversation")
# By handler.
OPERATIONS: Mapping[Any, Operation] = {
    V2_11.create_conversation: CREATE,
    V2_12.create_conversation: CREATE,
    V2_11.list_conversations: LIST,
    V2_12.list_conversations: LIST,
    V2_11.add_interaction: _add(request=MemoryBody),
    V2_12.add_interaction: _add(request=ObjectInfoBody),
    V2_11.list_interactions: LIST_INTERACTIONS,
    V2_12.list_interactions: LIST_INTERACTIONS,
    V2_12.get_conversation: _operation(summary="Return a conversation"),
    V2_12.get_interaction: _operation(summary="Return an interaction"),
    memory.delete_conversation: DELETE,
    memory.rename_conversation: _operation(
        summary="Rename a conversation", request={"allOf": [MemoryBody, object_schema(name=STRING)]}
    ),
    memory.annotate_interaction: _operation(
        summary="Replace the additional information of an interaction",
        request={"allOf": [ObjectInfoBody, object_schema(additional_info={})]},
    ),
    search: _operation(
        summary="Search, and answer a question from the hits by a pipeline",
        request=SEARCH,
        query=SEARCH_QUERY,
        errors=WITH_ANSWER,
    ),
    pipelines.list_pipelines: _operation(summary="Return all pipelines"),
    pipelines.get_pipeline: _operation(summary="Return a pipeline"),
    pipelines.put_pipeline: _operation(summary="Create or replace a pipeline", request=PIPELINE),
    pipelines.delete_pipeline: _operation(summary="Delete a stored pipeline"),
    pipelines.put_settings: _operation(
        summary="Accept settings that turn on what is always on", request=SETTINGS
    ),
}


def describe(handlers: Mapping[str, Any]) -> Mapping[str, Operation]:
    """Return the operations of a route's handlers by method: those of GET have no body."""
    known = {method: OPERATIONS[it] for method, it in handlers.items() if it in OPERATIONS}
    return {
        method: replace(operation, request=None) if method == "GET" else operation
        for method, operation in known.items()
    }
