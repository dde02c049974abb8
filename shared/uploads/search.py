"""Searches the uploads of an owner; a failure is a note of the answer."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from shared.domain.errors import ChatError, Misconfigured
from shared.domain.overrides import MAX_TOP, Overrides
from shared.domain.request import User
from shared.retrieval.base import EMBEDDING_FAILED, DocumentRetriever, SearchResult
from shared.uploads.base import Upload, Uploads, upload_id

NOT_SEARCHED = "Your uploads were not searched: their index cannot be read."
NO_STORE = "Your uploads, if you have any, were not searched: their store cannot be read."

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class UploadSearch:
    """The uploads, and the index of their passages."""

    uploads: Uploads
    passages: DocumentRetriever

    async def search(self, owner: str, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages of an owner's uploads that are ready."""
        try:
            if not await self.uploads.has_any(owner):
                return SearchResult((), {})
            result = await self._search_index(owner, query, overrides)
            if not result.sources:
                return result
            ready = await self.find_ready(owner, {each.sourcefile for each in result.sources})
        except ChatError as error:
            return explain_failure(NO_STORE, error)
        visible = tuple(each for each in result.sources if each.sourcefile in ready)
        return replace(result, sources=visible)

    async def _search_index(self, owner: str, query: str, overrides: Overrides) -> SearchResult:
        """Return the best passages of an owner. Raises what the store raises."""
        try:
            result = await self.passages.search(User(owner), query, restrict(overrides))
        except ChatError as error:
            if not await self.list_ready(owner):
                return SearchResult((), {})  # before the first is read, there may be no index
            return explain_failure(NOT_SEARCHED, error)
        return replace(result, notes=own_notes(result))

    async def find_ready(self, owner: str | None, names: Iterable[str]) -> set[str]:
        """Return those of these encoded paths that are an owner's uploads, and ready.

        Raises ChatErrors.
        """
        ids = [id for id in map(upload_id, names) if id]
        uploads = await self.uploads.get(owner, ids) if owner else {}
        return _ready_paths(uploads.values())

    async def list_ready(self, owner: str | None) -> set[str]:
        """Return the encoded paths of an owner's uploads that are ready. Raises ChatErrors."""
        return _ready_paths(await self.uploads.list(owner) if owner else ())


def restrict(overrides: Overrides) -> Overrides:
    """Return the overrides of a search among an owner's uploads alone."""
    filters = {"use_oid_security_filter": True, "use_groups_security_filter": False}
    # More than are wanted: those that are deleted, or not ready yet, are left out afterwards.
    return overrides.model_copy(update={**filters, "filter": None, "top": MAX_TOP})


def own_notes(result: SearchResult) -> tuple[str, ...]:
    """Return the notes that the search of the shared index need not have: the others are the same.

    The embedding model is called for each search.
    """
    return tuple(note for note in result.notes if EMBEDDING_FAILED in note)


def explain_failure(note: str, reason: ChatError | str) -> SearchResult:
    """Log why uploads are not searched, and return a result that has a note."""
    level = logging.ERROR if isinstance(reason, Misconfigured) else logging.WARNING
    cause = reason.cause if isinstance(reason, ChatError) else None
    log.log(level, "uploads: not searched: %s", cause or reason)
    return SearchResult((), {}, (note,))


def _ready_paths(uploads: Iterable[Upload]) -> set[str]:
    return {each.sourcefile for each in uploads if each.state == "ready"}
