"""Limits the length of the texts that reach a retriever and, through it, an embedding model.

Unicode normalization takes the square of the number of combining marks in a text and holds the
GIL: a text without a limit stops every other request of the worker.
"""

from __future__ import annotations

from shared.chat.errors import BadRequest
from shared.chat.overrides import MAX_SEARCH_TEXT, Overrides
from shared.chat.request import User
from shared.retrieval.base import MAX_QUERY, Retriever, SearchResult


class LimitedRetriever:
    """A Retriever that checks the length of each text before it calls another one."""

    def __init__(self, retriever: Retriever) -> None:
        self.retriever, self.name = retriever, retriever.name

    async def ready(self) -> None:
        """Check the wrapped retriever."""
        await self.retriever.ready()

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Search the wrapped retriever. Raises BadRequest for a text that is too long."""
        _check_length("query", query, MAX_QUERY)
        _check_length("include_category", overrides.include_category, MAX_SEARCH_TEXT)
        _check_length("exclude_category", overrides.exclude_category, MAX_SEARCH_TEXT)
        return await self.retriever.search(user, query, overrides)

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether the file is readable; False for a name that is too long for any index."""
        if len(sourcefile) > MAX_SEARCH_TEXT:
            return False
        return await self.retriever.readable(user, sourcefile, overrides)


def _check_length(field: str, text: str | None, limit: int) -> None:
    if text is not None and len(text) > limit:
        raise BadRequest(f"must have {limit} characters at most", field=field)
