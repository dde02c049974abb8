"""The seam behind which passages are found: any search engine that can do `search`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.chat import LeftOut, Source, User
from shared.overrides import Overrides

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]
"""Makes a vector of each text, in their order. Raises ChatErrors."""

MOST_PICTURES = 8
"""Of a search: its best passages that have one. What a model looks at closely has an end."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave: passages in rank order, and how it was really done.

    `props` goes into the thought about the search. `notes` are sentences for whatever was asked
    of the search and cannot be done here: each says what was used instead. `left_out` was found,
    and its scores are too low.
    """

    sources: tuple[Source, ...]
    props: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class Retriever(Protocol):
    """Finds the passages that a question needs."""

    name: str

    async def ready(self) -> None:
        """Ask whether it would answer, at no cost. Raises the ChatError that stands against it."""
        ...

    async def search(self, user: User, query: str, overrides: Overrides) -> Found:
        """The best `overrides.top` passages for `query` that `user` may see.

        A passage without oids and groups is public. Any other is seen when an enabled filter
        (`use_oid_security_filter`, `use_groups_security_filter`) matches the user. `query` is any
        text at all. `overrides.filter` narrows it, or is a BadRequest: never left out. Raises a
        ChatError: TooManyRequests, Unavailable, Misconfigured.
        """
        ...

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Whether `user` may see any passage of a file, by the same rule as in a search.

        Who may not find it may not open it. False too where there is no such file. Raises a
        ChatError as `search` does.
        """
        ...
