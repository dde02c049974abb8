"""The Retriever protocol: what the app needs of a search engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.chat.events import ExcludedSource, Source
from shared.chat.overrides import MAX_SEARCH_TEXT, Overrides
from shared.chat.request import User

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]
"""Returns one vector per text, in their order. Raises ChatErrors."""

MAX_IMAGES = 8
"""Images per search, those of its best passages: each costs the model tokens."""

ELLIPSIS = " \u2026 "
MAX_QUERY = MAX_SEARCH_TEXT + len(ELLIPSIS)
"""Characters of the longest text that `shorten_query` returns."""


def shorten_query(text: str) -> str:
    """Return the search text: of a longer one the first and last 1,000 characters.

    Users paste documents into their questions; the question itself stands before or after them.
    """
    half = MAX_SEARCH_TEXT // 2
    return text if len(text) <= MAX_SEARCH_TEXT else f"{text[:half]}{ELLIPSIS}{text[-half:]}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Passages in rank order, and how they were searched for.

    `props` are the properties of the thought about the search. `notes` are sentences, one for each
    option of the request that is not available: they say what was used instead. `excluded` are the
    passages whose scores are below the request's minimum.
    """

    sources: tuple[Source, ...]
    props: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    excluded: tuple[ExcludedSource, ...] = ()


class Retriever(Protocol):
    """Searches an index for passages.

    A class that inherits from it has to define `search` only: the other members have defaults.
    A class that does not inherit from it defines all of them.
    """

    name: str = "custom"

    async def ready(self) -> None:
        """Check, free of charge, that a search would work. Raises the ChatError that it meets.

        The default is that it would.
        """
        return None

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Return the best `overrides.top` passages for `query` that `user` may see.

        A passage without oids and groups is public. Any other is visible when an enabled filter
        (`use_oid_security_filter`, `use_groups_security_filter`) matches the user. `query` is any
        text of at most MAX_QUERY characters. `overrides.filter` is applied, or raises BadRequest:
        it is never ignored. Raises a ChatError: TooManyRequests, Unavailable, Misconfigured.
        """
        ...

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file, by the rule of `search`.

        It decides who may open the file. False, too, if the index has no such file. Raises
        ChatErrors as `search` does. The default is False: no file is opened.
        """
        return False


def missing_members(retriever: object) -> list[str]:
    """Return the names of the members of Retriever that an object lacks."""
    names = ("name", "ready", "search", "readable")
    missing = [name for name in names if not hasattr(retriever, name)]
    return ["search"] if getattr(type(retriever), "search", None) is Retriever.search else missing
