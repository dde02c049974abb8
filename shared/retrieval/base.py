"""The seam behind which passages are found: any search engine that can do `search`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.chat.events import ExcludedSource, Source
from shared.chat.overrides import MAX_SEARCH_TEXT, Overrides
from shared.chat.request import User

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]
"""Makes a vector of each text, in their order. Raises ChatErrors."""

MOST_PICTURES = 8
"""Of a search: its best passages that have one. What a model looks at closely has an end."""

ELLIPSIS = " \u2026 "
MAX_QUERY = MAX_SEARCH_TEXT + len(ELLIPSIS)
"""Characters of a query, in the form that `shorten_query` gives it."""


def shorten_query(text: str) -> str:
    """Return the text to search for: a long one's first and last 1,000 characters.

    People paste documents into their questions: what they ask stands before or behind these.
    """
    half = MAX_SEARCH_TEXT // 2
    return text if len(text) <= MAX_SEARCH_TEXT else f"{text[:half]}{ELLIPSIS}{text[-half:]}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search gave: passages in rank order, and how it was really done.

    `props` goes into the thought about the search. `notes` are sentences for whatever was asked
    of the search and cannot be done here: each says what was used instead. `excluded` was found,
    and its scores are too low.
    """

    sources: tuple[Source, ...]
    props: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    excluded: tuple[ExcludedSource, ...] = ()


class Retriever(Protocol):
    """Finds the passages that a question needs.

    A class that inherits from it has to define `search` only: the other members have defaults.
    A class that does not inherit from it defines all of them.
    """

    name: str = "custom"

    async def ready(self) -> None:
        """Ask whether it would answer, at no cost. Raises the ChatError that stands against it.

        The default is that it would.
        """
        return None

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """The best `overrides.top` passages for `query` that `user` may see.

        A passage without oids and groups is public. Any other is seen when an enabled filter
        (`use_oid_security_filter`, `use_groups_security_filter`) matches the user. `query` is any
        text of at most MAX_QUERY characters. `overrides.filter` narrows it, or is a BadRequest:
        never left out. Raises a ChatError: TooManyRequests, Unavailable, Misconfigured.
        """
        ...

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file, by the same rule as in a search.

        Who may not find it may not open it. False too where there is no such file. Raises a
        ChatError as `search` does. The default is False: no file is opened.
        """
        return False


def missing_members(retriever: object) -> list[str]:
    """Return the names of the members of Retriever that an object lacks."""
    names = ("name", "ready", "search", "readable")
    missing = [name for name in names if not hasattr(retriever, name)]
    return ["search"] if getattr(type(retriever), "search", None) is Retriever.search else missing
