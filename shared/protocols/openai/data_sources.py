"""`data_sources` of a chat completion, as "Azure OpenAI On Your Data" had it (2024-05-01-preview).

Parameters that would change the deployment are ignored: authentication, field mapping, the
embedding model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from shared.chat.messages import Message
from shared.chat.overrides import RetrievalMode, WholeNumber
from shared.chat.request import DataSource

QueryType = Literal[
    "simple", "semantic", "vector", "vector_simple_hybrid", "vector_semantic_hybrid"
]
ContextKind = Literal["citations", "intent", "all_retrieved_documents"]
# Each query type: how to search, and whether a ranker goes over what was found.
SEARCHES: Mapping[QueryType | None, tuple[RetrievalMode | None, bool | None]] = {
    None: (None, None),  # as the deployment does
    "simple": ("text", False),
    "semantic": ("text", True),
    "vector": ("vectors", False),
    "vector_simple_hybrid": ("hybrid", False),
    "vector_semantic_hybrid": ("hybrid", True),
}
TOP, STRICTNESS = 5, 3
CHECKED = ("endpoint", "index_name", "filter")  # by the deployment's settings
CONTEXTS: tuple[ContextKind, ...] = ("citations", "intent")


def path(field: str | None) -> str | None:
    """Where a client wrote what is wrong."""
    if field == "data_source":
        return "data_sources"
    return f"data_sources[0].parameters.{field}" if field in CHECKED else field


def _without_nulls(value: Any) -> Any:
    """null is "missing" here, too."""
    if not isinstance(value, dict):
        return value
    return {key: it for key, it in value.items() if it is not None}


class _Parameters(BaseModel):
    model_config = ConfigDict(strict=True)
    endpoint: str = Field(max_length=2000)
    index_name: str = Field(max_length=200)
    query_type: QueryType | None = None
    top_n_documents: WholeNumber = Field(default=TOP, ge=1, le=50)
    strictness: WholeNumber = Field(default=STRICTNESS, ge=1, le=5)
    in_scope: bool = True
    role_information: str = ""
    filter: str = Field(default="", max_length=32_000)
    include_contexts: Annotated[list[ContextKind], Field(max_length=10, fail_fast=True)] = list(
        CONTEXTS
    )


class AzureSearchSource(BaseModel):
    """One data source: an index of Azure AI Search."""

    model_config = ConfigDict(strict=True)
    type: Literal["azure_search"]
    parameters: Annotated[_Parameters, BeforeValidator(_without_nulls)]

    @property
    def source(self) -> DataSource:
        """Where to search, and how, as far as the deployment has a say in that."""
        parameters = self.parameters
        narrowing = parameters.filter.strip() or None
        return DataSource(
            parameters.endpoint, parameters.index_name, parameters.strictness, narrowing
        )

    @property
    def overrides(self) -> dict[str, Any]:
        """The overrides that it sets."""
        mode, ranked = SEARCHES[self.parameters.query_type]
        top = self.parameters.top_n_documents
        return {"top": top, "retrieval_mode": mode, "semantic_ranker": ranked}

    @property
    def instructions(self) -> tuple[Message, ...]:
        """What it tells the model."""
        text = self.parameters.role_information
        message = Message("system", text, raw={"role": "system", "content": text})
        return (message,) if text.strip() else ()
