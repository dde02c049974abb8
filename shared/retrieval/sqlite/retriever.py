"""The Retriever of the embedded index: SQLite's full-text search, and vectors if it has any."""

from __future__ import annotations

import asyncio
import json
import logging
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from shared.domain.errors import BadRequest, ChatError, Misconfigured, Unavailable
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
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
    embed_query,
    list_top_folders,
)
from shared.retrieval.sqlite import search
from shared.retrieval.sqlite.connections import (
    INDEX_FILE_ERROR,
    CurrentIndex,
    IndexReplaced,
    OpenIndex,
    build_in_memory,
)
from shared.retrieval.sqlite.schema import IndexMeta
from shared.retrieval.sqlite.search import SearchQuery, TextScores
from shared.retrieval.sqlite.vectors import Similarities, is_available

T = TypeVar("T")

NO_NUMPY = "numpy, which vector search needs, is not installed (pip install numpy)"
ANOTHER_MODEL = "the index was built with another embedding model"
# What to do, by the reason why vectors are not searched.
ADVICE = {
    NO_VECTORS: "`make index DOCS=folder` adds them",
    ANOTHER_MODEL: "`make index DOCS=folder` builds it with this one",
}
# Of the vectors of a model of which no better weight is known: chosen with multilingual-e5-small.
OTHER_MODEL_WEIGHT = 2.0
MAX_ATTEMPTS = 10  # of a search whose file is replaced meanwhile

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class Embedding:
    """An embedding model."""

    model: str  # its name, as the index has it
    embed: Embed
    weight: float = OTHER_MODEL_WEIGHT  # of its vectors in a hybrid search; that of words is 1


def read_passages(path: Path) -> Iterator[Source]:
    """Read the passages of a JSON Lines file. Raises OSError, ValueError, KeyError."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield _to_source(json.loads(line))


def _to_source(row: Mapping[str, Any]) -> Source:
    return Source(
        id=row["id"],
        content=row["content"],
        sourcepage=row["sourcepage"],
        sourcefile=row["sourcefile"],
        category=row.get("category") or None,
        oids=tuple(row.get("oids") or ()),
        groups=tuple(row.get("groups") or ()),
        heading=row.get("heading") or "",
    )


class SqliteRetriever:
    """A Retriever inside the app's process: text search, and vector search if the index allows."""

    name = "embedded"

    def __init__(
        self,
        source: Iterable[Source] | Path,
        embedding: Embedding | None = None,
        documents: Path | None = None,
        vectors: Mapping[str, Sequence[float]] = MappingProxyType({}),
    ) -> None:
        """Use the index in a file, or build one in memory of passages of files in `documents`.

        `vectors` are those of the passages in memory by the model of `embedding`, by their ids.
        Raises what iterating over the passages raises.
        """
        meta = IndexMeta(documents)
        if embedding and vectors:
            size = len(next(iter(vectors.values())))
            meta = IndexMeta(documents, embedding.model, size)
        index = source if isinstance(source, Path) else build_in_memory(source, meta, vectors)
        self._current = CurrentIndex(index)
        self._embedding = embedding
        self.close = weakref.finalize(self, self._current.close)

    @classmethod
    def open(cls, path: Path, embedding: Embedding | None = None) -> SqliteRetriever:
        """Use the index in a file. The file may be replaced: the next search opens it again.

        An error of the file is logged now, and raised by each search until the file is valid.
        """
        index = cls(path, embedding)
        try:
            model = index._current.get().meta.model
        except ChatError as error:
            log.error("index: %s", error.cause)
        else:
            usable, reason = index._select_embedding(model)
            if (embedding or model) and usable is None:
                advice = f": {ADVICE[reason]}" if reason in ADVICE else ""
                log.warning("index: the search is by text: %s%s", reason, advice)
        return index

    @property
    def documents(self) -> Path | None:
        """The folder of the indexed files, if the index has one.

        Raises Misconfigured, Unavailable if the index cannot be read.
        """
        return self._current.get().meta.documents

    async def ready(self) -> None:
        """Check that the index can be read and has passages. Raises Misconfigured, Unavailable.

        The message of a Misconfigured says what to do: `/health` shows it.
        """
        try:
            index = await asyncio.to_thread(self._current.get)
        except Misconfigured as error:
            raise Misconfigured(error.cause or "", cause=error.cause) from error
        if not index.passages:
            raise Misconfigured(EMPTY_INDEX, cause=EMPTY_INDEX)

    def statistics(self) -> IndexStatistics:
        """What the index holds. Raises Misconfigured, Unavailable if it cannot be read."""
        index = self._current.get()
        has_vectors = self._select_embedding(index.meta.model)[0] is not None
        counts = has_vectors, index.documents, index.passages
        if index.path is None or index.identity is None:
            return IndexStatistics("samples", *counts, is_samples=True)
        folder = index.meta.documents
        name = (folder and folder.name) or index.path.name
        updated = index.identity.modified_ns / 1e9
        return IndexStatistics(name, *counts, updated, has_images=index.has_images)

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages for `query` that `user` may see. Raises ChatErrors.

        Scores are in the range of BM25 in a text search, cosines in a vector search, and at most 1
        in a hybrid one, whatever the question. A client's own filter is not supported: BadRequest.
        """
        if overrides.filter is not None:
            raise BadRequest("is not supported by the embedded index", field="filter")
        request = SearchQuery(user, query, overrides)
        return await self._retry_if_replaced(lambda: self._search(request))

    async def search_documents(
        self, user: User, query: str, names: Sequence[str], overrides: Overrides
    ) -> SearchResult:
        """Return the best passages of documents that `user` may see. Raises ChatErrors."""
        request = SearchQuery(user, query, overrides, tuple(names))
        return await self._retry_if_replaced(lambda: self._search(request))

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file. Raises ChatErrors."""
        query = SearchQuery(user, "", overrides)
        return await self._read(lambda index: search.is_readable(index, query, sourcefile))

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        """Return the passages of a part of a file that `user` may see, in its order.

        Raises ChatErrors.
        """
        query = SearchQuery(user, "", overrides)
        return await self._read(lambda index: search.list_passages(index, query, sourcefile, part))

    async def list_files(
        self, user: User, overrides: Overrides, after: str, limit: int
    ) -> tuple[str, ...]:
        """Return the next files of which `user` may see a passage. Raises ChatErrors."""
        query = SearchQuery(user, "", overrides)
        return await self._read(lambda index: search.list_files(index, query, after, limit))

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        """Return the top folders of the first files that `user` may see. Raises ChatErrors."""
        return await list_top_folders(self, user, overrides, limit)

    async def _read(self, read: Callable[[OpenIndex], T]) -> T:
        """Call `read` with the current index in a thread, so that it delays no other request."""
        return await self._retry_if_replaced(
            lambda: asyncio.to_thread(lambda: read(self._current.get()))
        )

    async def _retry_if_replaced(self, work: Callable[[], Awaitable[T]]) -> T:
        for _ in range(MAX_ATTEMPTS):
            with suppress(IndexReplaced):
                return await work()
        raise Unavailable(cause="the embedded index: its file is replaced again and again")

    async def _search(self, query: SearchQuery) -> SearchResult:
        if self._embedding and query.overrides.retrieval_mode != "text":
            index = await asyncio.to_thread(self._current.get)
            embedding, _ = self._select_embedding(index.meta.model)
            if embedding:
                return await _search_with_vector(index, query, embedding)
        # In a thread: a blocking call would delay every other request of this worker. In one, also
        # for the file: another thread would take a tenth of the time of a small index's search.
        return await asyncio.to_thread(self._search_by_text, query)

    def _search_by_text(self, query: SearchQuery) -> SearchResult:
        index = self._current.get()
        _, reason = self._select_embedding(index.meta.model)
        return _search_text(index, query, reason)

    def _select_embedding(self, model: str | None) -> tuple[Embedding | None, str]:
        """Return the embedding model if it is the index's `model`; else None, and the reason."""
        if model is None:
            return None, NO_VECTORS
        if self._embedding is None:
            return None, "no embedding model is configured"
        if self._embedding.model != model:
            return None, ANOTHER_MODEL
        if not is_available():
            return None, NO_NUMPY
        return self._embedding, ""


def _to_result(
    query: SearchQuery,
    sources: tuple[Source, ...],
    report: SearchReport,
    relevance: float | None = None,
) -> SearchResult:
    props, notes = report.props(query.overrides), report.notes(query.overrides)
    return SearchResult(sources, props, notes, relevance=relevance)


def _search_text(index: OpenIndex, query: SearchQuery, reason: str) -> SearchResult:
    report = SearchReport("text", fallback_reason=reason, has_images=index.has_images)
    return _to_result(query, search.text_search(index, query), report)


async def _search_with_vector(
    index: OpenIndex, query: SearchQuery, embedding: Embedding
) -> SearchResult:
    """Search by vector or hybrid, or by text if the embedding model fails for the moment.

    A hybrid search tells the relevance of the best passages. The text search runs while the query's
    vector is made and compared.
    """
    mode = query.overrides.retrieval_mode or "hybrid"
    report = SearchReport(mode, has_images=index.has_images)
    compared = asyncio.create_task(_compare(index, query, embedding, mode))
    try:
        by_text, similarities = await asyncio.gather(_find_by_text(index, query, mode), compared)
    finally:
        compared.cancel()
    if similarities is None:
        return await asyncio.to_thread(_search_text, index, query, EMBEDDING_FAILED)
    if by_text is None:
        sources = await asyncio.to_thread(search.vector_search, index, query, similarities)
        return _to_result(query, sources, report)
    values = query, similarities, by_text, embedding.weight
    sources, relevance = await asyncio.to_thread(search.hybrid_search, index, *values)
    return _to_result(query, sources, report, relevance)


async def _find_by_text(index: OpenIndex, query: SearchQuery, mode: str) -> TextScores | None:
    """Return the candidates of the text search; None if the search is by vectors alone."""
    if mode != "hybrid":
        return None
    return await asyncio.to_thread(search.text_candidates, index, query)


async def _compare(
    index: OpenIndex, query: SearchQuery, embedding: Embedding, mode: str
) -> Similarities | None:
    """Compare the query with the passages; None if a hybrid search has to go on by words."""
    vector = await _embed(embedding.embed, query.text, mode, index.meta.dimensions)
    if vector is None:
        return None
    return await asyncio.to_thread(search.compare, index, query, vector)


async def _embed(embed: Embed, query: str, mode: str, dimensions: int) -> Sequence[float] | None:
    """Return the vector of a query as `embed_query` does. Raises Misconfigured for another size."""
    vector = await embed_query(embed, query, mode)
    if vector is not None and len(vector) != dimensions:
        message = f"its vectors have {dimensions} dimensions, the model's have {len(vector)}."
        raise Misconfigured(cause=INDEX_FILE_ERROR.format(message))
    return vector
