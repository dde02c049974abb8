"""The Retriever of Azure AI Search: text, vector or hybrid search, with an optional ranker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from shared.domain.errors import Misconfigured, Unsupported
from shared.domain.events import Source
from shared.domain.overrides import UNSET, Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.client import (
    QueryRejected,
    RankerUnavailable,
    SearchIndex,
    blame_filter,
)
from shared.retrieval.azure_search.images import FetchImage, Images
from shared.retrieval.azure_search.index_fields import (
    ALTERNATIVE_CHUNK_FIELDS,
    PAGE_SIZE,
    IndexFields,
    Query,
    build_filter,
    file_queries,
    filter_by_file,
    stored_name,
    to_passages,
)
from shared.retrieval.azure_search.permissions import FilterPermissions, Permissions, bind
from shared.retrieval.base import (
    EMBEDDING_FAILED,
    EMPTY_INDEX,
    NO_VECTORS,
    WHOLE_FILE,
    Embed,
    FilePart,
    IndexStatistics,
    SearchReport,
    SearchResult,
    distinct,
    embed_query,
    split_by_score,
)

log = logging.getLogger("chat")

NEAREST_NEIGHBORS = 50  # per vector query; Microsoft's advice for hybrid search with a ranker
NOT_BY_NAME = (
    "The documents of this deployment's index cannot be read by their names: search it instead."
)
RANKER_PAUSE_SECONDS = 3600.0
NO_RANKER = (
    "the service has no semantic ranker (AZURE_SEARCH_SEMANTIC_RANKER), or its free questions of "
    "this month are used up; searches go on without it for an hour"
)
PARTIAL_RANKING_NOTE = (
    "semantic_ranker ranked a part only: the passages are in the order of the search."
)


@dataclass(slots=True)
class AzureSearchRetriever:
    """A Retriever over one index. Queries are in the form of the service's REST API."""

    index: SearchIndex
    fields: IndexFields
    seconds: float  # limits each call
    embed: Embed | None = None  # makes vectors of queries; None if the index does, or has none
    vectorizer: bool = False  # whether the index makes vectors of queries
    semantic_configuration: str | None = None  # None without a ranker
    fetch_image: FetchImage | None = None  # the image of a passage
    permissions: Permissions = field(default_factory=FilterPermissions)
    name: str = "Azure AI Search"
    passages: int | None = None  # their number, known after `ready`
    now: Callable[[], float] = time.monotonic
    # When the ranker is used again after the service answered that it has none, by `now`.
    ranker_retry_time: float = 0.0

    async def ready(self) -> None:
        """Search for no passages, with the fields of a search, and count them. Raises ChatErrors.

        An empty index is a Misconfigured. Nothing is counted where only users see what there is.
        """
        condition = self._condition(User(), (), UNSET)
        query = self._build_query("", UNSET, "text", condition) | {"top": 0}
        await self._search_index(self.index, query)
        if not self.permissions.counts_all:
            return
        self.passages = await self.index.count(self.fields.id, self.seconds)
        if not self.passages:
            raise Misconfigured(EMPTY_INDEX, cause=EMPTY_INDEX)

    def statistics(self) -> IndexStatistics:
        """The name of the index, and the number of its passages if it is known."""
        has_vectors = self._retrieval_mode(UNSET) != "text"
        return IndexStatistics(
            self.index.name,
            has_vectors,
            passages=self.passages,
            has_ranker=self._has_ranker,
            has_images=self._has_images,
        )

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages for `query` that `user` may see. Raises ChatErrors."""
        return await self._search(user, query, (), overrides)

    async def search_documents(
        self, user: User, query: str, names: Sequence[str], overrides: Overrides
    ) -> SearchResult:
        """Return the best passages of documents that `user` may see. Raises ChatErrors.

        A search by words alone returns none that has no word of `query`. Raises Unsupported for an
        index of another origin that cannot filter by the names of documents.
        """
        if not names:
            return SearchResult((), {})
        try:
            return await self._search(user, query, names, overrides)
        except QueryRejected:
            if self.fields.is_own_schema:
                raise
            raise Unsupported(NOT_BY_NAME) from None

    async def _search(
        self, user: User, query: str, names: Sequence[str], overrides: Overrides
    ) -> SearchResult:
        """Search within documents by their sourcefiles, or all if there are none."""
        mode = self._retrieval_mode(overrides)
        ranked = bool(overrides.semantic_ranker) and self._has_ranker
        condition = partial(self._condition, user, names)
        request = self._build_query(query, overrides, mode, condition(overrides))
        index = await self._open_index(user)
        reason = NO_VECTORS
        if mode != "text":
            if vector_query := await self._vector_query(query, mode):
                request["vectorQueries"] = [vector_query]
            else:
                mode, reason = "text", EMBEDDING_FAILED
        try:
            ranking = self._semantic_options(query, overrides) if ranked else {}
            hits = await self._search_with_filter(index, request | ranking, overrides, condition)
        except RankerUnavailable:
            self._pause_ranker()
            ranked = False
            hits = await self._search_with_filter(index, request, overrides, condition)
        report = SearchReport(
            mode,
            ranked,
            self.fields.embedding,
            fallback_reason=reason,
            has_images=self._has_images,
            has_categories=bool(self.fields.category),
        )
        return await self._result(user, hits, overrides, report)

    async def _open_index(self, user: User) -> SearchIndex:
        """The index as a user sees it. Raises ChatErrors without a token that is needed."""
        return bind(self.index, await self.permissions.find_token(user))

    @property
    def filter_fields(self) -> IndexFields:
        """The fields that the app's filter uses."""
        return self.permissions.filter_fields(self.fields)

    async def _result(
        self,
        user: User,
        hits: Sequence[Mapping[str, Any]],
        overrides: Overrides,
        report: SearchReport,
    ) -> SearchResult:
        visible = self.permissions.visible(user, map(self.fields.to_source, hits))
        results = tuple(distinct(visible))
        partial = report.reranked and any(source.reranker_score is None for source in results)
        included, excluded = split_by_score(results, overrides, report.reranked)
        notes = [*report.notes(overrides), *((PARTIAL_RANKING_NOTE,) if partial else ())]
        if self.fetch_image is not None and overrides.includes_images:
            images = Images(self.fetch_image, self.seconds)
            included, image_notes = await images.attach(included, hits, self.fields)
            notes += image_notes
        return SearchResult(included, report.props(overrides), tuple(notes), excluded)

    @property
    def _has_images(self) -> bool:
        return self.fetch_image is not None and bool(self.fields.image)

    @property
    def _has_ranker(self) -> bool:
        return self.semantic_configuration is not None and self.now() >= self.ranker_retry_time

    def _pause_ranker(self) -> None:
        """Search without the ranker for a while: its free questions of a month may be used up."""
        if self._has_ranker:  # else another search has logged it
            log.warning("search: %s", NO_RANKER)
        self.ranker_retry_time = self.now() + RANKER_PAUSE_SECONDS

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file. Raises ChatErrors.

        False for every file of an index with URLs of its own: the app does not serve its files.
        """
        if self.fields.url:
            return False
        name = stored_name(self.fields, sourcefile)
        query = filter_by_file(self.filter_fields, user, name, overrides)
        names = (self.fields.id, *self.permissions.checked_fields(self.fields))
        query |= {"select": ",".join(names), "top": 1}
        try:
            hits = await self._search_index(await self._open_index(user), query)
            return bool(self.permissions.visible(user, map(self.fields.to_source, hits)))
        except QueryRejected:
            if self.fields.is_own_schema:
                raise
            return False  # the sourcefile of another tool's index need not be filterable

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        """Return the passages of a file that `user` may see, in its order, whatever the part.

        An index of another origin cannot filter by the page, nor sort by it. Raises ChatErrors.
        """
        name = stored_name(self.fields, sourcefile)
        accepted = False
        index = await self._open_index(user)
        select = {"select": ",".join(self.fields.select_fields())}
        for query in file_queries(self.filter_fields, user, name, overrides):
            try:
                passages = await self._search_file(index, query | select, name)
            except QueryRejected:
                if self.fields.is_own_schema:
                    raise
                continue
            accepted = True
            if passages:
                return tuple(self.permissions.visible(user, passages))
        if not accepted:
            raise Unsupported(NOT_BY_NAME)
        return ()

    async def list_files(
        self, user: User, overrides: Overrides, after: str, limit: int
    ) -> tuple[str, ...]:
        """Return nothing: the service does not list the values of a field such as sourcefile."""
        return ()

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        """Return the categories of passages that `user` may see. Raises ChatErrors.

        Empty for an index of another origin, whose field need not be facetable.
        """
        if not self.fields.category or not self.fields.is_own_schema:
            return ()
        condition = build_filter(self.filter_fields, user, overrides)
        index = await self._open_index(user)
        return await index.values(self.fields.category, condition, limit, self.seconds)

    def _retrieval_mode(self, overrides: Overrides) -> str:
        if not self.fields.embedding or (not self.vectorizer and self.embed is None):
            return "text"
        return overrides.retrieval_mode or "hybrid"

    async def _vector_query(self, query: str, mode: str) -> dict[str, Any] | None:
        """The vector of a search; None if the model fails for the moment. Raises ChatErrors."""
        options = {"k": NEAREST_NEIGHBORS, "fields": self.fields.embedding}
        if self.embed is None:
            return {"kind": "text", "text": query, **options}
        vector = await embed_query(self.embed, query, mode)
        return None if vector is None else {"kind": "vector", "vector": vector, **options}

    def _condition(self, user: User, names: Sequence[str], overrides: Overrides) -> str | None:
        """The filter of a search; `names` are the sourcefiles within which it searches."""
        stored = [stored_name(self.fields, name) for name in names]
        return build_filter(self.filter_fields, user, overrides, stored)

    def _build_query(
        self, query: str, overrides: Overrides, mode: str, condition: str | None
    ) -> dict[str, Any]:
        images = self.fetch_image is not None and overrides.includes_images
        fields = {
            "search": None if mode == "vectors" else query,
            "filter": condition,
            "select": ",".join(self.fields.select_fields(images)),
            "top": overrides.top,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _semantic_options(self, query: str, overrides: Overrides) -> dict[str, Any]:
        captions = {"captions": "extractive|highlight-false"}
        return {
            "queryType": "semantic",
            "semanticConfiguration": self.semantic_configuration,
            "semanticQuery": query,
            "semanticErrorHandling": "partial",
            **(captions if overrides.semantic_captions else {}),
        }

    async def _search_with_filter(
        self,
        index: SearchIndex,
        request: Mapping[str, Any],
        overrides: Overrides,
        condition: Callable[[Overrides], str | None],
    ) -> list[Mapping[str, Any]]:
        """The hits. Raises BadRequest if the service rejects the client's filter."""

        async def search(changed: Overrides) -> None:
            other = {"filter": condition(changed), "top": changed.top}
            await self._search_index(index, {**request, **other})

        async with blame_filter(overrides, search):
            return await self._search_index(index, request)

    async def _search_index(
        self, index: SearchIndex, request: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        """The hits. If the chunk field is rejected, its alternative name is tried and stored."""
        try:
            return await index.search(request, self.seconds)
        except QueryRejected:
            # The name in this request: another request may have replaced the stored one meanwhile.
            selected = request["select"].split(",")
            names = (name for name in ALTERNATIVE_CHUNK_FIELDS if name in selected)
            name = next(names, None)
            if self.fields.chunk not in ALTERNATIVE_CHUNK_FIELDS or name is None:
                raise
            other = ALTERNATIVE_CHUNK_FIELDS[name]
            select = [other if field == name else field for field in selected]
            with suppress(QueryRejected):
                alternative = {**request, "select": ",".join(select)}
                hits = await index.search(alternative, self.seconds)
                self.fields = replace(self.fields, chunk=other)
                return hits
            raise

    async def _search_file(self, index: SearchIndex, query: Query, name: str) -> tuple[Source, ...]:
        """Return the passages of a file among the hits.

        The first page has the best hits: if none is of the file, the others are not read.
        """
        hits = await self._search_index(index, query)
        passages = to_passages(self.fields, hits, name)
        if not passages or len(hits) < PAGE_SIZE:
            return passages
        try:
            hits = await self._all_pages(index, query | {"orderby": self.fields.id})
        except QueryRejected:  # the key of another tool's index need not be sortable
            hits = await self._all_pages(index, query)
        return await asyncio.to_thread(to_passages, self.fields, hits, name)

    async def _all_pages(self, index: SearchIndex, query: Query) -> list[Mapping[str, Any]]:
        hits: list[Mapping[str, Any]] = []
        while True:
            page = await self._search_index(index, query | {"skip": len(hits)})
            hits += page
            if len(page) < PAGE_SIZE:
                return hits
