"""A Retriever that searches an index, and the uploads of the user in another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, zip_longest

from shared.domain.errors import ChatError, Misconfigured, Unavailable
from shared.domain.events import Source
from shared.domain.overrides import MAX_TOP, Overrides
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
from shared.uploads.base import CATEGORY, Upload, Uploads, upload_id

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
NOT_SEARCHED = "Your uploads were not searched: their index cannot be read."

log = logging.getLogger("chat")


class UploadsRetriever(Retriever):
    """Searches `shared` for what it gives to the user, and `passages` for the user's uploads."""

    def __init__(
        self,
        shared: Retriever,
        passages: DocumentRetriever,
        uploads: Uploads,
        local_owner: str | None = None,
    ) -> None:
        """`local_owner` owns what an unknown user uploads; None: they own nothing."""
        self._shared, self._passages, self._uploads = shared, passages, uploads
        self._local_owner = local_owner
        self.name = shared.name

    async def ready(self) -> None:
        """Check that the shared index is available. Raises ChatErrors."""
        await self._shared.ready()

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages of both indexes, by their ranks. Raises ChatErrors."""
        owner = self._owner(user)
        if not owner or not await self._uploads.has_any(owner):
            return await self._shared.search(user, query, overrides)
        result, own = await asyncio.gather(
            self._shared.search(user, query, overrides), self._search_own(owner, query, overrides)
        )
        ready = await self._find_ready(owner, {source.sourcefile for source in own.sources})
        visible = [source for source in own.sources if source.sourcefile in ready]
        return replace(
            result,
            sources=tuple(islice(_fuse(visible, result.sources), overrides.top)),
            notes=(*result.notes, *own.notes),
            relevance=await self._relevance(result, own) if visible else result.relevance,
        )

    async def _search_own(self, owner: str, query: str, overrides: Overrides) -> SearchResult:
        """Search the uploads of an owner; an index that cannot be read is a note of the answer."""
        try:
            result = await self._passages.search(User(owner), query, _restrict(overrides))
        except (Misconfigured, Unavailable) as error:
            if not await self._list_ready(owner):
                return SearchResult((), {})  # before the first is read, there is no index
            log.error("uploads: their index cannot be read, until the app starts again: %s", error)
            return SearchResult((), {}, (NOT_SEARCHED,))
        return replace(result, notes=())  # those of the shared index are the same

    async def search_documents(
        self, user: User, query: str, names: Sequence[str], overrides: Overrides
    ) -> SearchResult:
        """Return the best passages of the user's uploads, else their first. Raises ChatErrors."""
        owner = self._owner(user)
        ready = await self._find_ready(owner, names)
        own = [name for name in names if name in ready]
        restricted = _restrict(overrides).model_copy(update=dict.fromkeys(LIMITS))
        result = await self._passages.search_documents(User(owner), query, own, restricted)
        found = result.sources or await self._read_beginnings(User(owner), own, restricted)
        return replace(result, sources=found[: overrides.top], notes=())

    async def _read_beginnings(
        self, owner: User, names: Iterable[str], overrides: Overrides
    ) -> tuple[Source, ...]:
        """Return the first passages of each document, in turns."""
        part = FilePart(characters=BEGINNING)
        lists = [await self._passages.list_passages(owner, name, overrides, part) for name in names]
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
        return await self._passages.list_passages(owner, sourcefile, _restrict(overrides), part)

    async def list_files(
        self, user: User, overrides: Overrides, after: str, limit: int
    ) -> tuple[str, ...]:
        """Return the next files of which `user` may see a passage. Raises ChatErrors."""
        files = await self._shared.list_files(user, overrides, after, limit)
        uploads = await self._list_ready(self._owner(user))
        return tuple(sorted({*files, *(name for name in uploads if name > after)})[:limit])

    async def list_categories(
        self, user: User, overrides: Overrides, limit: int
    ) -> tuple[str, ...]:
        """Return the categories of passages that `user` may see. Raises ChatErrors."""
        categories = await self._shared.list_categories(user, overrides, limit)
        has_uploads = await self._list_ready(self._owner(user))
        return tuple(sorted({*categories, CATEGORY}))[:limit] if has_uploads else categories

    def statistics(self) -> IndexStatistics | None:
        """What the shared index holds. Raises ChatErrors."""
        return self._shared.statistics()

    def _owner(self, user: User) -> str | None:
        return user.oid or self._local_owner

    async def _find_ready(self, owner: str | None, names: Iterable[str]) -> set[str]:
        """Return those of these encoded paths that are an owner's uploads, and ready."""
        ids = [id for id in map(upload_id, names) if id]
        uploads = await self._uploads.get(owner, ids) if owner else {}
        return _ready_paths(uploads.values())

    async def _list_ready(self, owner: str | None) -> set[str]:
        """Return the encoded paths of an owner's uploads that are ready."""
        return _ready_paths(await self._uploads.list(owner) if owner else ())

    async def _is_ready(self, user: User, sourcefile: str) -> bool:
        return sourcefile in await self._find_ready(self._owner(user), (sourcefile,))

    async def _relevance(self, result: SearchResult, own: SearchResult) -> float | None:
        """The higher relevance; None if one is unknown."""
        if result.relevance is None or own.relevance is None:
            return None
        with suppress(ChatError):  # the index is replaced at this moment
            statistics = await asyncio.to_thread(self._passages.statistics)
            if statistics and (statistics.passages or 0) >= FEWEST_PASSAGES:
                return max(result.relevance, own.relevance)
        return None


def _ready_paths(uploads: Iterable[Upload]) -> set[str]:
    return {each.sourcefile for each in uploads if each.state == "ready"}


def _restrict(overrides: Overrides) -> Overrides:
    """Return the overrides of a search among an owner's uploads alone."""
    filters = {"use_oid_security_filter": True, "use_groups_security_filter": False}
    # More than are wanted: those that are deleted, or not ready yet, are left out afterwards.
    return overrides.model_copy(update={**filters, "filter": None, "top": MAX_TOP})


def _fuse(*rankings: Iterable[Source]) -> Iterable[Source]:
    """Return the sources by rank; of equal ranks that of the first ranking leads."""
    ranked = [(rank, source) for ranking in rankings for rank, source in enumerate(ranking)]
    return distinct(source for _, source in sorted(ranked, key=lambda pair: pair[0]))
