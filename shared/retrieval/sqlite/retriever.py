"""Which passages answer a question? An index inside the app: SQLite's full-text search."""

from __future__ import annotations

import asyncio
import json
import logging
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from shared.chat.errors import BadRequest, ChatError, Misconfigured, Unavailable
from shared.chat.events import Source
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.retrieval.base import Embed, SearchResult
from shared.retrieval.search_report import NO_VECTORS, SearchReport
from shared.retrieval.sqlite.connections import (
    AGAIN,
    CurrentIndex,
    IndexReplaced,
    OpenIndex,
    in_memory,
)
from shared.retrieval.sqlite.search import (
    SearchQuery,
    by_both,
    by_vector,
    by_words,
    is_readable,
    worded,
)
from shared.retrieval.sqlite.vectors import is_available

T = TypeVar("T")

TRIES = 10  # of a search whose file is replaced under its hands

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class Embedding:
    """What makes vectors of questions: a model by its name, as the index calls it too."""

    model: str
    embed: Embed


def read_passages(path: Path) -> Iterator[Source]:
    """The passages of a file of JSON Lines. Raises OSError, ValueError, KeyError."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield _source(json.loads(line))


def _source(row: Mapping[str, Any]) -> Source:
    return Source(
        id=row["id"],
        content=row["content"],
        sourcepage=row["sourcepage"],
        sourcefile=row["sourcefile"],
        category=row.get("category") or None,
        oids=tuple(row.get("oids") or ()),
        groups=tuple(row.get("groups") or ()),
    )


class SqliteRetriever:
    """A Retriever that searches inside the app: by words, and by vectors where there are any."""

    name = "embedded"

    def __init__(
        self,
        place: Iterable[Source] | Path,
        embedding: Embedding | None = None,
        documents: Path | None = None,
    ) -> None:
        """Answer from a file, or from some passages of the files in `documents`, kept in memory.

        Raises what reading the passages raises.
        """
        kept = place if isinstance(place, Path) else in_memory(place, documents)
        self._current = CurrentIndex(kept)
        self._embedding = embedding
        self.close = weakref.finalize(self, self._current.close)

    @classmethod
    def open(cls, path: Path, embedding: Embedding | None = None) -> SqliteRetriever:
        """The index in a file, which may be replaced at any time: the next question sees it.

        What is wrong with the file is logged now, and is an error of each search until it is put
        right.
        """
        index = cls(path, embedding)
        try:
            model = index._current.now().meta.model
        except ChatError as error:
            log.error("index: %s", error.cause)
        else:
            if (embedding or model) and isinstance(why := index._usable(model), str):
                log.warning("index: the search is by text: %s", why)
        return index

    @property
    def documents(self) -> Path | None:
        """The folder that the files were read from, where the index knows one.

        Raises Misconfigured, Unavailable where the index cannot be read.
        """
        return self._current.now().meta.documents

    async def ready(self) -> None:
        """See that its file can be read. Raises Misconfigured, Unavailable."""
        await asyncio.to_thread(self._current.now)

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """The best passages for `query` that `user` may see. Raises ChatErrors.

        Their score is bm25 for a search by words, the cosine for one by vectors, and what
        reciprocal rank fusion gives for both. It knows no filters but its own.
        """
        if overrides.filter is not None:
            raise BadRequest("is not for the embedded index", field="filter")
        return await self._steadily(partial(self._found, SearchQuery(user, query, overrides)))

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file. Raises ChatErrors."""
        asked = SearchQuery(user, "", overrides)

        async def seen(state: OpenIndex) -> bool:
            return await asyncio.to_thread(is_readable, state, asked, sourcefile)

        return await self._steadily(seen)

    async def _steadily(self, work: Callable[[OpenIndex], Awaitable[T]]) -> T:
        """Do it from the beginning where the file is replaced meanwhile."""
        for _ in range(TRIES):
            with suppress(IndexReplaced):
                return await work(await asyncio.to_thread(self._current.now))
        raise Unavailable(cause="the embedded index: its file is replaced again and again")

    async def _found(self, asked: SearchQuery, state: OpenIndex) -> SearchResult:
        usable = self._usable(state.meta.model)
        mode = asked.overrides.retrieval_mode or "hybrid"
        unlike = usable if isinstance(usable, str) else NO_VECTORS
        if isinstance(usable, str) or mode == "text":
            mode = "text"
            # In a thread: a blocking call would hold up every other answer of this worker.
            sources = await asyncio.to_thread(by_words, state, asked)
        else:
            sources = await _by_meaning(state, asked, usable.embed)
        done = SearchReport(mode, unlike=unlike, images=state.pictures)
        return SearchResult(sources, done.props(asked.overrides), done.notes(asked.overrides))

    def _usable(self, model: str | None) -> Embedding | str:
        """What makes vectors as `model` has made the index's; else why there is nothing."""
        if model is None:
            return NO_VECTORS
        if self._embedding is None:
            return "there is no embedding model here"
        if self._embedding.model != model:
            return "the index was made with another embedding model"
        return (
            self._embedding if is_available() else "numpy, which searches vectors, is not installed"
        )


async def _by_meaning(state: OpenIndex, asked: SearchQuery, embed: Embed) -> tuple[Source, ...]:
    """By vectors, or by words and vectors. The question's vector is made meanwhile."""
    making = asyncio.create_task(_vector(embed, asked.query, state.meta.dimensions))
    try:
        if asked.overrides.retrieval_mode == "vectors":
            return await asyncio.to_thread(by_vector, state, asked, await making)
        words = await asyncio.to_thread(worded, state, asked)
        return await asyncio.to_thread(by_both, state, asked, words, await making)
    finally:
        making.cancel()


async def _vector(embed: Embed, query: str, dimensions: int) -> Sequence[float]:
    (vector,) = await embed([query])
    if len(vector) != dimensions:
        said = f"its vectors have {dimensions} numbers, the model's have {len(vector)}."
        raise Misconfigured(cause=AGAIN.format(said))
    return vector
