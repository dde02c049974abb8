"""The Retriever of a knowledge base, with the effort `minimal`: the app writes the query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shared.azure.errors import map_malformed_response
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.client import blame_filter, map_errors
from shared.retrieval.azure_search.index_fields import build_filter
from shared.retrieval.azure_search.knowledge_base.client import KnowledgeBase
from shared.retrieval.azure_search.knowledge_base.response import KnowledgeResponse, parse_response
from shared.retrieval.azure_search.knowledge_base.sources import KnowledgeSource
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from shared.retrieval.base import (
    WHOLE_FILE,
    FilePart,
    IndexStatistics,
    SearchReport,
    SearchResult,
    distinct,
    split_by_score,
)

MAX_OUTPUT_TOKENS = 10_000  # of the passages in one response
MAX_SCORE = 4  # of the semantic ranker
NO_FILTER = "The knowledge source {} was left out: it has no categories and no filter."
# Options of a search that a knowledge base does not have.
UNAVAILABLE = ("retrieval_mode", "minimum_search_score", "semantic_captions")


@dataclass(slots=True)
class KnowledgeBaseRetriever:
    """Searches a knowledge base. What is known of single files comes from its index."""

    base: KnowledgeBase
    sources: tuple[KnowledgeSource, ...]
    index: AzureSearchRetriever
    seconds: float  # limits each call
    name: str = "Azure AI Search, knowledge base"

    async def ready(self) -> None:
        """Search the index for no passages, and count them: a question to the base costs tokens."""
        await self.index.ready()

    def statistics(self) -> IndexStatistics:
        """What the index holds."""
        return self.index.statistics()

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages for `query` that `user` may see. Raises ChatErrors."""
        intents = [{"type": "semantic", "search": query}]
        return await self.retrieve(user, {"intents": intents}, overrides)

    async def retrieve(
        self, user: User, question: Mapping[str, Any], overrides: Overrides
    ) -> SearchResult:
        """Return the best passages for the `intents` or `messages` of a request.

        Raises ChatErrors.
        """
        response = await self._retrieve(user, question, overrides)
        sources, excluded = split_by_score([*distinct(response.sources)], overrides, ranked=True)
        report = SearchReport(
            overrides.retrieval_mode or "hybrid",
            reranked=True,
            vector_field=self.index.fields.embedding,
            has_categories=bool(self.index.fields.category),
        )
        own = {"retrieval_mode": "knowledge base", "use_semantic_captions": False}
        props = {**report.props(overrides), **own, **response.props()}
        searched = self._searched_sources(overrides)
        left_out = [source.name for source in self.sources if source not in searched]
        notes = (
            *_unavailable(overrides),
            *map(NO_FILTER.format, left_out),
            *report.notes(overrides),
            *response.notes(),
        )
        return SearchResult(sources, props, notes, excluded, tokens=response.tokens)

    async def _retrieve(
        self, user: User, question: Mapping[str, Any], overrides: Overrides
    ) -> KnowledgeResponse:
        """Retrieve. Raises BadRequest if the service rejects the client's filter."""
        ask = partial(self._ask, user, question)
        async with blame_filter(overrides, ask):
            reply = await ask(overrides)
        kinds = {source.name: source.kind for source in self._searched_sources(overrides)}
        with map_errors(), map_malformed_response():
            known = {source.name for source in self.sources}
            response = parse_response(reply, kinds, self.index.fields, known)
        indexed = self.index.permissions.visible(user, response.indexed)
        return replace(response, indexed=indexed)

    def _searched_sources(self, overrides: Overrides) -> tuple[KnowledgeSource, ...]:
        """The sources to which the conditions of a search can be applied."""
        is_limited = overrides.filter is not None or overrides.include_category is not None
        return tuple(source for source in self.sources if source.is_index or not is_limited)

    async def _ask(self, user: User, question: Mapping[str, Any], overrides: Overrides) -> Any:
        request = {**question, **self._build_options(user, overrides)}
        token = await self.index.permissions.find_token(user)
        return await self.base.retrieve(request, self.seconds, token)

    def _build_options(self, user: User, overrides: Overrides) -> dict[str, Any]:
        condition = build_filter(self.index.filter_fields, user, overrides)
        options = {
            "includeReferences": True,
            "includeReferenceSourceData": True,
            # Without it the service has a minimum of its own.
            "rerankerThreshold": min(max(overrides.minimum_reranker_score or 0, 0), MAX_SCORE),
        }
        filters = {"filterAddOn": condition} if condition else {}
        return {
            "includeActivity": True,
            "maxOutputSizeInTokens": MAX_OUTPUT_TOKENS,
            "maxOutputDocuments": overrides.top,
            "knowledgeSourceParams": [
                {
                    "knowledgeSourceName": source.name,
                    "kind": source.kind,
                    **options,
                    **(filters if source.is_index else {}),
                }
                for source in self._searched_sources(overrides)
            ],
        }

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file. Raises ChatErrors."""
        return await self.index.readable(user, sourcefile, overrides)

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        """Return the passages of a file that `user` may see. Raises ChatErrors."""
        return await self.index.list_passages(user, sourcefile, overrides, part)

    async def list_files(
        self, user: User, overrides: Overrides, after: str, limit: int
    ) -> tuple[str, ...]:
        """Return nothing, as the index does."""
        return await self.index.list_files(user, overrides, after, limit)

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        """Return the categories of passages that `user` may see. Raises ChatErrors."""
        return await self.index.list_categories(user, overrides, limit)


def _unavailable(overrides: Overrides) -> Iterator[str]:
    for name in UNAVAILABLE:
        if overrides.is_requested(name):
            yield f"{name} was left out: a knowledge base has no such option."
