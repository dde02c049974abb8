"""`data_sources` of a chat completion, as "Azure OpenAI On Your Data" had it (2024-05-01-preview).

Parameters that would change the deployment are ignored: authentication, field mapping, the
embedding model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from shared.domain.messages import Message
from shared.domain.overrides import RetrievalMode, WholeNumber
from shared.domain.request import ChatRequest
from shared.http.body import without_nulls
from shared.retrieval.search_scope import DataSource

QueryType = Literal[
    "simple", "semantic", "vector", "vector_simple_hybrid", "vector_semantic_hybrid"
]
ContextKind = Literal["citations", "intent", "all_retrieved_documents"]
# The retrieval mode of each query type, and whether a semantic ranker sorts its results.
SEARCHES: Mapping[QueryType | None, tuple[RetrievalMode | None, bool | None]] = {
    None: (None, None),  # as the deployment does
    "simple": ("text", False),
    "semantic": ("text", True),
    "vector": ("vectors", False),
    "vector_simple_hybrid": ("hybrid", False),
    "vector_semantic_hybrid": ("hybrid", True),
}
CHECKED = ("endpoint", "index_name", "filter")  # by the deployment's settings


class _Parameters(BaseModel, strict=True):
    endpoint: str = Field(max_length=2000)
    index_name: str = Field(max_length=200)
    query_type: QueryType | None = None
    top_n_documents: WholeNumber = Field(default=5, ge=1, le=50)
    strictness: WholeNumber = Field(default=3, ge=1, le=5)
    in_scope: bool = True
    role_information: str = ""
    filter: str = Field(default="", max_length=32_000)
    include_contexts: Annotated[list[ContextKind], Field(max_length=10, fail_fast=True)] = [
        "citations",
        "intent",
    ]


class AzureSearchSource(BaseModel, strict=True):
    """One data source: an index of Azure AI Search."""

    type: Literal["azure_search"]
    parameters: Annotated[_Parameters, BeforeValidator(without_nulls)]


def apply_data_source(request: ChatRequest, source: AzureSearchSource) -> ChatRequest:
    """Return the request with the options of its data source."""
    parameters = source.parameters
    mode, ranked = SEARCHES[parameters.query_type]
    overrides = {
        "top": parameters.top_n_documents,
        "retrieval_mode": mode,
        "semantic_ranker": ranked,
    }
    data_source = DataSource(
        parameters.endpoint,
        parameters.index_name,
        parameters.strictness,
        parameters.filter.strip() or None,
    )
    return replace(
        request,
        messages=(*_instructions(parameters.role_information), *request.messages),
        overrides=request.overrides.model_copy(update=overrides),
        state=replace(
            request.state, data_source=data_source, include_contexts=parameters.include_contexts
        ),
        grounding="required" if parameters.in_scope else "optional",
    )


def _instructions(text: str) -> tuple[Message, ...]:
    message = Message("system", text, raw={"role": "system", "content": text})
    return (message,) if text.strip() else ()


def path(field: str | None) -> str | None:
    """Return the path of a field in a client's request."""
    if field == "data_source":
        return "data_sources"
    return f"data_sources[0].parameters.{field}" if field in CHECKED else field
