"""`data_sources` of a chat completion, as "Azure OpenAI On Your Data" had it (2024-05-01-preview).

Parameters that would change the deployment are ignored: authentication, field mapping, the
embedding model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from shared.domain.errors import BadRequest
from shared.domain.messages import Message
from shared.domain.overrides import MAX_TOP, Overrides, RetrievalMode, WholeNumber
from shared.domain.request import ChatRequest
from shared.http.body import allow_nulls, without_nulls
from shared.protocols.exchange import Exchange

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


class DataSource(BaseModel, strict=True):
    """The parameters of a data source. null means "missing"."""

    model_config = ConfigDict(json_schema_extra=allow_nulls)

    endpoint: str = Field(max_length=2000)
    index_name: str = Field(max_length=200)
    query_type: QueryType | None = None
    top_n_documents: WholeNumber = Field(default=5, ge=1, le=MAX_TOP)
    strictness: WholeNumber = Field(default=3, ge=1, le=5)  # 1 accepts weak matches
    in_scope: bool = True
    role_information: str = ""
    filter: str = Field(default="", max_length=32_000)  # OData
    include_contexts: Annotated[list[ContextKind], Field(max_length=10, fail_fast=True)] = [
        "citations",
        "intent",
    ]


class AzureSearchSource(BaseModel, strict=True):
    """One data source: an index of Azure AI Search."""

    type: Literal["azure_search"]
    parameters: Annotated[DataSource, BeforeValidator(without_nulls)]


def apply_data_source(request: ChatRequest, source: AzureSearchSource) -> ChatRequest:
    """Return the request with the options of its data source."""
    parameters = source.parameters
    mode, ranked = SEARCHES[parameters.query_type]
    overrides = {
        "top": parameters.top_n_documents,
        "retrieval_mode": mode,
        "semantic_ranker": ranked,
    }
    return replace(
        request,
        messages=(*_instructions(parameters.role_information), *request.messages),
        overrides=request.overrides.model_copy(update=overrides),
        state=replace(
            request.state, data_source=parameters, include_contexts=parameters.include_contexts
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


# Outside of strings OData has no other characters: no quote or bracket that only looks like one.
PLAIN = re.compile(r"[A-Za-z0-9_/,.:+() \t\r\n-]*")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
COMMENT_MARKS = ("--", "//")  # begin a comment in other languages
NO_FILTERS = "is not allowed in this deployment (ALLOW_CLIENT_FILTERS)"
NO_SEARCH = (
    "needs a search service, and this deployment has none (AZURE_SEARCH_ENDPOINT): leave it out, "
    "and what there is is searched"
)
OTHER_SOURCE = "is not the one that this deployment searches ({})"
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The search service and the index that are searched, and the options of a data source."""

    endpoint: str | None = None
    index: str | None = None
    filters: bool = False  # whether a request may narrow the search
    private: tuple[str, ...] = ()  # the fields of access control, which no filter may name
    scores: tuple[float, ...] = (0, 0, 0, 0, 0)  # minima of a semantic ranker, by strictness

    def apply(self, source: DataSource, overrides: Overrides) -> Overrides:
        """Return the overrides with the filter and the strictness of a data source.

        Raises BadRequest for another service or index, and for a filter that is not allowed.
        """
        if self.endpoint is None:
            raise BadRequest(NO_SEARCH, field="data_source")
        if not _is_same_server(source.endpoint, self.endpoint):
            raise BadRequest(OTHER_SOURCE.format("AZURE_SEARCH_ENDPOINT"), field="endpoint")
        if source.index_name != self.index:
            raise BadRequest(OTHER_SOURCE.format("AZURE_SEARCH_INDEX"), field="index_name")
        changes: dict[str, object] = {"filter": self._check_filter(source.filter.strip() or None)}
        if overrides.semantic_ranker:
            changes["minimum_reranker_score"] = self.scores[source.strictness - 1]
        return overrides.model_copy(update=changes)

    def _check_filter(self, condition: str | None) -> str | None:
        if condition is None:
            return None
        if not self.filters:
            raise BadRequest(NO_FILTERS, field="filter")
        return check_filter(condition, self.private)


def _is_same_server(endpoint: str, configured: str) -> bool:
    """Whether two addresses have the same host and port. Raises BadRequest for an invalid one."""
    try:
        parts = urlsplit(endpoint.strip())
        is_same = _host_and_port(parts) == _host_and_port(urlsplit(configured))
    except (ValueError, KeyError):
        raise BadRequest("must be an address such as https://host", field="endpoint") from None
    if "@" in parts.netloc:
        raise BadRequest("must have nothing before its host", field="endpoint")
    return is_same


def _host_and_port(parts: SplitResult) -> tuple[str | None, int]:
    """Return host and port. Raises KeyError for another scheme than http and https."""
    default_port = PORTS[parts.scheme]
    return parts.hostname, parts.port or default_port


def check_filter(condition: str, private: Iterable[str] = ()) -> str:
    """Check that an OData filter in parentheses can only narrow what `and` joins it to.

    Its quotes and parentheses balance, and it names no `private` field. Returns it. Raises
    BadRequest. The search service checks everything else.
    """
    strings = condition.split("'")  # every second one stands between quotes
    if len(strings) % 2 == 0:
        raise _invalid_filter("opens a quote that it does not close")
    bare = " ".join(strings[::2])
    if not PLAIN.fullmatch(bare) or any(mark in bare for mark in COMMENT_MARKS):
        raise _invalid_filter("holds characters that mean nothing in a filter outside of quotes")
    _check_balance(bare)
    naming = bare  # the part that names fields
    if "ismatch" in bare.lower():  # search.ismatch() takes its fields in strings
        if "\\" in condition:
            raise _invalid_filter("holds a backslash in what it searches for")
        naming = condition
    hidden = {part.lower() for name in private for part in name.split("/")}
    if hidden.intersection(name.lower() for name in NAME.findall(naming)):
        raise _invalid_filter("names a field that says who may see what")
    return condition


def _check_balance(bare: str) -> None:
    depth = 0
    for mark in re.findall(r"[()]", bare):
        depth += 1 if mark == "(" else -1
        if depth < 0:
            raise _invalid_filter("closes a parenthesis that it did not open")
    if depth:
        raise _invalid_filter("opens a parenthesis that it does not close")


def _invalid_filter(reason: str) -> BadRequest:
    return BadRequest(reason, field="filter")


def with_data_source(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return the request with the search of its data source, if it has one."""
    data_source = request.state.data_source
    if data_source is None:
        return request
    overrides = exchange.app.config(SearchScope).apply(data_source, request.overrides)
    state = replace(request.state, links_citations=False)  # these clients read `[docN]` alone
    return _with_known_model(exchange, replace(request, overrides=overrides, state=state))


def _with_known_model(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return the request without the name of an unknown model, and with a note.

    Programs of On Your Data name the deployments that they had there.
    """
    name = request.overrides.model
    if exchange.rag.models.has_model(name):
        return request
    note = (
        f"The model {name} was left out: this deployment has no model of that name, and its "
        "default model answered."
    )
    overrides = request.overrides.model_copy(update={"model": None})
    return replace(request, overrides=overrides, notes=(*request.notes, note))
