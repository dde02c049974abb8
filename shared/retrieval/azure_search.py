"""Azure AI Search: passages found by text, by vectors or by both, ranked again where it can."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from azure.search.documents.aio import SearchClient
from azure.search.documents.models import VectorizableTextQuery, VectorizedQuery, VectorQuery

from shared.chat import Source, User
from shared.overrides import UNSET, Overrides
from shared.retrieval import Embed, Found
from shared.retrieval.azure_search_client import NoRanker, translated
from shared.retrieval.notes import Done
from shared.retrieval.odata import condition, quoted, visible
from shared.retrieval.pictures import Pictures, pictured

NEIGHBOURS = 50  # what each vector query gives to the ranking; the service's own advice for hybrid
PART = "semantic_ranker gave a part only: the passages are in the order of the search."


@dataclass(frozen=True, slots=True)
class Fields:
    """What the index calls what we call so."""

    id: str = "id"
    content: str = "content"
    sourcepage: str = "sourcepage"
    sourcefile: str = "sourcefile"
    category: str = "category"
    oids: str = "oids"
    groups: str = "groups"
    embedding: str = "embedding"
    image: str = "image"

    def selected(self, images: bool = False) -> list[str]:
        """The fields that a hit is asked for: all but the vector; the picture's where wanted."""
        names = (self.id, self.content, self.sourcepage, self.sourcefile, self.category)
        return [*names, self.oids, self.groups, *((self.image,) if images else ())]


@dataclass(slots=True)
class AzureSearch:
    """A Retriever over one index.

    `embed` makes vectors of a question; None where the index makes them (`vectorizer`), or where
    there are none. `ranking` is the name of the semantic configuration, None without a ranker: it
    is forgotten when the service says that it has none. `pictures` fetches a passage's picture.
    """

    client: SearchClient
    fields: Fields
    seconds: float
    embed: Embed | None = None
    vectorizer: bool = False
    ranking: str | None = None
    pictures: Pictures | None = None
    name: str = "Azure AI Search"

    async def ready(self) -> None:
        """Ask for no passage, with the fields that a search asks for. Raises ChatErrors."""
        await self._hits(self._asked(User(), "", UNSET, "text") | {"top": 0})

    async def search(self, user: User, query: str, overrides: Overrides) -> Found:
        """The best passages for `query` that `user` may see. Raises ChatErrors."""
        mode = self._mode(overrides)
        ranked = bool(overrides.semantic_ranker and self.ranking)
        asked = self._asked(user, query, overrides, mode) | await self._vectors(mode, query)
        try:
            ranking = self._ranking(query, overrides) if ranked else {}
            hits = await self._hits(asked | ranking)
        except NoRanker:
            self.ranking, ranked = None, False
            hits = await self._hits(asked)
        done = Done(mode, ranked, self.fields.embedding, images=self.pictures is not None)
        found = tuple(self._source(hit) for hit in hits)
        part = ranked and any(source.reranker_score is None for source in found)
        sources, missing = await self._pictured(enough(found, overrides, ranked), hits, overrides)
        notes = (*done.notes(overrides), *((PART,) if part else ()), *missing)
        return Found(sources, done.props(overrides), notes)

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file. Raises ChatErrors."""
        ours = visible(self.fields, user, overrides)
        asked = {
            "search_text": "*",
            "filter": f"{ours} and {self.fields.sourcefile} eq {quoted(sourcefile)}",
            "select": [self.fields.id],
            "top": 1,
        }
        return bool(await self._hits(asked))

    async def _pictured(
        self, found: tuple[Source, ...], hits: Sequence[Mapping[str, Any]], overrides: Overrides
    ) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        if self.pictures is None or not overrides.images:
            return found, ()
        names = self.fields
        keys = {str(hit[names.id]): str(hit[names.image]) for hit in hits if hit.get(names.image)}
        return await pictured(found, keys, self.pictures, self.seconds)

    def _mode(self, overrides: Overrides) -> str:
        if not self.vectorizer and self.embed is None:
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
            "select": self.fields.selected(self.pictures is not None and overrides.images),
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

    async def _hits(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        with translated():
            async with asyncio.timeout(self.seconds):
                # nothing is sent before the first hit is asked for
                return [hit async for hit in await self.client.search(**asked)]

    def _source(self, hit: Mapping[str, Any]) -> Source:
        fields = self.fields
        captions = hit.get("@search.captions") or ()
        return Source(
            id=str(hit.get(fields.id) or ""),
            content=str(hit.get(fields.content) or ""),
            sourcepage=str(hit.get(fields.sourcepage) or ""),
            sourcefile=str(hit.get(fields.sourcefile) or ""),
            category=hit.get(fields.category) or None,
            oids=tuple(hit.get(fields.oids) or ()),
            groups=tuple(hit.get(fields.groups) or ()),
            captions=tuple(caption.text for caption in captions if caption.text),
            score=hit.get("@search.score"),
            reranker_score=hit.get("@search.reranker_score"),
        )


def enough(sources: Sequence[Source], overrides: Overrides, ranked: bool) -> tuple[Source, ...]:
    """The sources whose scores are high enough."""
    least = overrides.minimum_search_score
    ranked_least = overrides.minimum_reranker_score if ranked else None
    return tuple(
        source
        for source in sources
        if reaches(source.score, least) and reaches(source.reranker_score, ranked_least)
    )


def reaches(score: float | None, least: float | None) -> bool:
    """Whether a score is high enough; one that was not given is, and any where none is asked."""
    return score is None or least is None or score >= least
