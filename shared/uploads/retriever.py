"""A Retriever that searches an index, and the uploads of the user in another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, zip_longest

from shared.domain.errors import ChatError
from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.base import (
    WHOLE_FILE,
    DocumentRetriever,
    FilePart,
    IndexStatistics,
    Retriever,
    SearchResult,
    distinct,
)
from shared.uploads.base import CATEGORY, Uploads, upload_id
from shared.uploads.mentions import find_mentioned, may_mention
from shared.uploads.search import UploadSearch, explain_failure, own_notes, restrict

FEWEST_PASSAGES = 20
"""Passages of uploads, all owners' together, below which the relevance of a search is unknown: the
terms of a question are then as frequent in them as any other."""

BEGINNING = 4_000  # characters of a document in which nothing was found
# Options that are about a search of all documents.
LIMITS = (
    "include_category",
    "exclude_category",
    "minimum_search_score",
    "minimum_reranker_score",
)
SECONDS = 5.0  # that the uploads may take longer than the shared index
TOO_SLOW = "Your uploads, if you have any, were not searched: it took too long."


class UploadsRetriever(Retriever):
    """Searches `shared` for what it gives to the user, and `passages` for the user's uploads."""

    def __init__(
        self,
        shared: Retriever,
        passages: DocumentRetriever,
        uploads: Uploads,
        local_owner: str | None = None,
        seconds: float = SECONDS,
    ) -> None:
        """`local_owner` owns what an unknown user uploads; None: they own nothing.

        A search goes on without the uploads if they take `seconds` longer than `shared`.
        """
        self._shared, self._passages = shared, passages
        self._own = UploadSearch(uploads, passages)
        self._local_owner, self._seconds = local_owner, seconds
        self.name = shared.name

    async def ready(self) -> None:
        """Check that the shared index is available. Raises ChatErrors."""
        await self._shared.ready()

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages of both indexes, by their ranks.

        A note says why the uploads were not searched. Raises ChatErrors of the shared index.
        """
        owner = self._owner(user)
        if not owner:
            return await self._shared.search(user, query, overrides)
        search_own = asyncio.create_task(self._own.search(owner, query, overrides))
        try:
            result = await self._shared.search(user, query, overrides)
            await asyncio.wait({search_own}, timeout=self._seconds)
            slow = not search_own.done()
            own = explain_failure(TOO_SLOW, "it stalls") if slow else search_own.result()
        finally:
            search_own.cancel()
        notes = tuple(dict.fromkeys((*result.notes, *own.notes)))
        if not own.sources:
            return replace(result, notes=notes)
        return replace(
            result,
            sources=tuple(islice(_fuse(own, result), overrides.top)),
            notes=notes,
            relevance=await self._relevance(result, own),
        )

    async def find_mentioned(
        self, user: User, question: str, overrides: Overrides
    ) -> tuple[str, ...]:
        """Return the encoded paths of the user's uploads whose names a question contains.

        Raises ChatErrors.
        """
        owner = self._owner(user)
        wanted = overrides.include_category in (None, CATEGORY)
        wanted = wanted and overrides.exclude_category != CATEGORY
        if not owner or not wanted or not may_mention(question):
            return ()
        return find_mentioned(question, await self._own.uploads.list(owner))

    async def search_documents(
        self, user: User, query: str, names: Sequence[str], overrides: Overrides
    ) -> SearchResult:
        """Return the best passages of the user's uploads, else their first. Raises ChatErrors."""
        owner = self._owner(user)
        ready = await self._own.find_ready(owner, names)
        own = [name for name in names if name in ready]
        restricted = restrict(overrides).model_copy(update=dict.fromkeys(LIMITS))
        result = await self._passages.search_documents(User(owner), query, own, restricted)
        found = result.sources or await self._read_beginnings(User(owner), own, restricted)
        return replace(result, sources=found[: overrides.top], notes=own_notes(result))

    async def _read_beginnings(
        self, owner: User, names: Iterable[str], overrides: Overrides
    ) -> tuple[Source, ...]:
        """Return the first passages of each document, in turns."""
        part = FilePart(characters=BEGINNING)
        read = (self._passages.list_passages(owner, name, overrides, part) for name in names)
        lists = await asyncio.gather(*read)
        return tuple(each for row in zip_longest(*lists) for each in row if each is not None)

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file. Raises ChatErrors."""
        if upload_id(sourcefile) is None:
            return await self._shared.readable(user, sourcefile, overrides)
        return await self._is_ready(user, sourcefile)

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        """Return the passages of a part of a file that `user` may see. Raises ChatErrors."""
        if upload_id(sourcefile) is None:
            return await self._shared.list_passages(user, sourcefile, overrides, part)
        if not await self._is_ready(user, sourcefile):
            return ()
        owner = User(self._owner(user))
        return await self._passages.list_passages(owner, sourcefile, restrict(overrides), part)

    async def list_files(
        self, user: User, overrides: Overrides, after: str, limit: int
    ) -> tuple[str, ...]:
        """Return the next files of which `user` may see a passage. Raises ChatErrors."""
        files, uploads = await asyncio.gather(
            self._shared.list_files(user, overrides, after, limit),
            self._own.list_ready(self._owner(user)),
        )
        return tuple(sorted({*files, *(name for name in uploads if name > after)})[:limit])

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        """Return the categories of passages that `user` may see. Raises ChatErrors."""
        categories, uploads = await asyncio.gather(
            self._shared.list_categories(user, overrides, limit),
            self._own.list_ready(self._owner(user)),
        )
        return tuple(sorted({*categories, CATEGORY}))[:limit] if uploads else categories

    def statistics(self) -> IndexStatistics | None:
        """What the shared index holds. Raises ChatErrors."""
        return self._shared.statistics()

    def _owner(self, user: User) -> str | None:
        return user.oid or self._local_owner

    async def _is_ready(self, user: User, sourcefile: str) -> bool:
        return sourcefile in await self._own.find_ready(self._owner(user), (sourcefile,))

    async def _relevance(self, result: SearchResult, own: SearchResult) -> float | None:
        """The higher relevance; None if one is unknown, or the number of passages of uploads."""
        if result.relevance is None or own.relevance is None:
            return None
        with suppress(ChatError):  # the index is replaced at this moment
            statistics = await asyncio.to_thread(self._passages.statistics)
            if statistics and (statistics.passages or 0) >= FEWEST_PASSAGES:
                return max(result.relevance, own.relevance)
        return None


def _fuse(own: SearchResult, shared: SearchResult) -> Iterable[Source]:
    """Return the sources by rank; of equal ranks the uploads lead unless they are less relevant."""
    first, second = _relevance_of(own), _relevance_of(shared)
    leads = first is None or second is None or first >= second
    rankings = (own.sources, shared.sources) if leads else (shared.sources, own.sources)
    ranked = [(rank, source) for ranking in rankings for rank, source in enumerate(ranking)]
    return distinct(source for _, source in sorted(ranked, key=lambda pair: pair[0]))


def _relevance_of(result: SearchResult) -> float | None:
    """The relevance, or the best score of a semantic ranker: both have the same scale everywhere.

    None if there is neither.
    """
    scores = (each.reranker_score for each in result.sources)
    best = max((score for score in scores if score is not None), default=None)
    return best if result.relevance is None else result.relevance
