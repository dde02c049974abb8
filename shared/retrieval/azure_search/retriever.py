"""Azure AI Search: passages found by text, by vectors or by both, ranked again where it can."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from azure.search.documents.aio import SearchClient
from azure.search.documents.models import VectorizableTextQuery, VectorizedQuery, VectorQuery

from shared.chat.citation_paths import decode_path
from shared.chat.errors import BadRequest
from shared.chat.events import ExcludedSource, Source
from shared.chat.overrides import UNSET, Overrides
from shared.chat.request import User
from shared.retrieval.azure_search.client import QueryRejected, RankerUnavailable, map_errors
from shared.retrieval.azure_search.field_mapping import OTHERS, IndexFields
from shared.retrieval.azure_search.images import Pictures, pictured
from shared.retrieval.azure_search.odata import condition, quoted, visible
from shared.retrieval.base import Embed, SearchResult
from shared.retrieval.search_report import SearchReport

NEIGHBOURS = 50  # what each vector query gives to the ranking; the service's own advice for hybrid
PART = "semantic_ranker gave a part only: the passages are in the order of the search."


@dataclass(slots=True)
class AzureSearchRetriever:
    """A Retriever over one index.

    `embed` makes vectors of a question; None where the index makes them (`vectorizer`), or where
    there are none. `ranking` is the name of the semantic configuration, None without a ranker: it
    is forgotten when the service says that it has none. `pictures` fetches a passage's picture.
    """

    client: SearchClient
    fields: IndexFields
    seconds: float
    embed: Embed | None = None
    vectorizer: bool = False
    ranking: str | None = None
    pictures: Pictures | None = None
    name: str = "Azure AI Search"

    async def ready(self) -> None:
        """Ask for no passage, with the fields that a search asks for. Raises ChatErrors."""
        await self._hits(self._asked(User(), "", UNSET, "text") | {"top": 0})

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """The best passages for `query` that `user` may see. Raises ChatErrors."""
        mode = self._mode(overrides)
        ranked = bool(overrides.semantic_ranker and self.ranking)
        asked = self._asked(user, query, overrides, mode) | await self._vectors(mode, query)
        try:
            ranking = self._ranking(query, overrides) if ranked else {}
            hits = await self._narrowed(asked | ranking, user, overrides)
        except RankerUnavailable:
            self.ranking, ranked = None, False
            hits = await self._narrowed(asked, user, overrides)
        done = self._done(mode, ranked)
        found = tuple(self.fields.source(hit) for hit in hits)
        part = ranked and any(source.reranker_score is None for source in found)
        used, left_out = sorted_out(found, overrides, ranked)
        sources, missing = await self._pictured(used, hits, overrides)
        notes = (*done.notes(overrides), *((PART,) if part else ()), *missing)
        return SearchResult(sources, done.props(overrides), notes, left_out)

    def _done(self, mode: str, ranked: bool) -> SearchReport:
        return SearchReport(
            mode,
            ranked,
            self.fields.embedding,
            images=self.pictures is not None and bool(self.fields.image),
            categories=bool(self.fields.category),
        )

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file. Raises ChatErrors.

        Where the index has addresses of its own, its files are not ours to open.
        """
        if self.fields.url:
            return False
        name = sourcefile if self.fields.ours else decode_path(sourcefile)
        parts = visible(self.fields, user, overrides), self._is(name)
        asked = {
            "search_text": "*",
            "filter": " and ".join(filter(None, parts)),
            "select": [self.fields.id],
            "top": 1,
        }
        try:
            return bool(await self._hits(asked))
        except QueryRejected:
            if self.fields.ours:
                raise
            return False  # an index made elsewhere need not tell its passages by their file

    def _is(self, sourcefile: str) -> str:
        return f"{self.fields.sourcefile} eq {quoted(sourcefile)}"

    async def _pictured(
        self, found: tuple[Source, ...], hits: Sequence[Mapping[str, Any]], overrides: Overrides
    ) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        if self.pictures is None or not overrides.includes_images:
            return found, ()
        names = self.fields
        keys = {str(hit[names.id]): str(hit[names.image]) for hit in hits if hit.get(names.image)}
        return await pictured(found, keys, self.pictures, self.seconds)

    def _mode(self, overrides: Overrides) -> str:
        if not self.fields.embedding or (not self.vectorizer and self.embed is None):
            return "text"
        return overrides.retrieval_mode or "hybrid"

    async def _vectors(self, mode: str, query: str) -> dict[str, list[VectorQuery]]:
        if mode == "text":
            return {}
        field: dict[str, Any] = {
            "k_nearest_neighbors": NEIGHBOURS,
            "fields": self.fields.embedding,
        }
        if self.embed is None:
            return {"vector_queries": [VectorizableTextQuery(text=query, **field)]}
        (vector,) = await self.embed([query])
        return {"vector_queries": [VectorizedQuery(vector=vector, **field)]}

    def _asked(self, user: User, query: str, overrides: Overrides, mode: str) -> dict[str, Any]:
        return {
            "search_text": None if mode == "vectors" else query,
            "filter": condition(self.fields, user, overrides),
            "select": self.fields.selected(self.pictures is not None and overrides.includes_images),
            "top": overrides.top,
        }

    def _ranking(self, query: str, overrides: Overrides) -> dict[str, Any]:
        captions = {"query_caption": "extractive", "query_caption_highlight_enabled": False}
        return {
            "query_type": "semantic",
            "semantic_configuration_name": self.ranking,
            "semantic_query": query,
            "semantic_error_mode": "partial",
            **(captions if overrides.semantic_captions else {}),
        }

    async def _narrowed(
        self, asked: Mapping[str, Any], user: User, overrides: Overrides
    ) -> list[dict[str, Any]]:
        """The hits; a filter of the client's that the service does not take is a BadRequest."""
        try:
            return await self._hits(asked)
        except QueryRejected as refused:
            if overrides.filter is None:
                raise
            ours = condition(self.fields, user, overrides.model_copy(update={"filter": None}))
            await self._hits({**asked, "filter": ours, "top": 1})  # is it the filter?
            said = "the search service does not take it"
            raise BadRequest(said, field="filter", cause=refused.cause) from None

    async def _hits(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The hits. An index that has another name for a passage's number is asked by it then."""
        try:
            return await self._sent(asked)
        except QueryRejected:
            # Of this request: another one may have found the right name meanwhile.
            name = next((name for name in OTHERS if name in asked["select"]), None)
            if self.fields.chunk not in OTHERS or name is None:
                raise
            select = [OTHERS[name] if each == name else each for each in asked["select"]]
            with suppress(QueryRejected):
                hits = await self._sent({**asked, "select": select})
                self.fields = replace(self.fields, chunk=OTHERS[name])
                return hits
            raise

    async def _sent(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        with map_errors():
            async with asyncio.timeout(self.seconds):
                # nothing is sent before the first hit is asked for
                return [hit async for hit in await self.client.search(**asked)]


def sorted_out(
    sources: Sequence[Source], overrides: Overrides, ranked: bool
) -> tuple[tuple[Source, ...], tuple[ExcludedSource, ...]]:
    """The sources whose scores are high enough, and the others."""
    least = overrides.minimum_search_score
    ranked_least = overrides.minimum_reranker_score if ranked else None
    used: list[Source] = []
    left_out: list[ExcludedSource] = []
    for source in sources:
        if not reaches(source.score, least):
            left_out.append(ExcludedSource(source, "score"))
        elif not reaches(source.reranker_score, ranked_least):
            left_out.append(ExcludedSource(source, "rerank"))
        else:
            used.append(source)
    return tuple(used), tuple(left_out)


def reaches(score: float | None, least: float | None) -> bool:
    """Whether a score is high enough; one that was not given is, and any where none is asked."""
    return score is None or least is None or score >= least
