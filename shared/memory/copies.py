"""The seam of answer copies: rated questions and answers, kept with their users' consent.

A copy has no owner. Whoever has its id, which is random, may delete it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCopy:
    """A question and its answer, with the feedback on it."""

    id: str  # 32 hexadecimal digits
    day: str  # ISO 8601: a time would lead to the line of the log
    question: str
    answer: str
    rating: str
    reasons: tuple[str, ...] = ()
    comment: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the copy as JSON."""
        return {**asdict(self), "reasons": list(self.reasons)}


def parse_copy(value: Mapping[str, Any]) -> AnswerCopy:
    """Parse the JSON of a copy."""
    return AnswerCopy(**{**value, "reasons": tuple(value["reasons"])})


class AnswerCopies(Protocol):
    """A store of copies. Its methods raise ChatErrors, as those of the conversations do."""

    @property
    def days(self) -> float | None:
        """For how long a copy is kept; None is no limit."""
        ...

    async def put(self, copy: AnswerCopy) -> None:
        """Store a copy, or replace it: its time starts anew."""
        ...

    async def delete(self, id: str) -> bool:
        """Delete a copy. Returns whether it existed."""
        ...

    async def all(self) -> Sequence[AnswerCopy]:
        """Return all copies that have not expired, the oldest first."""
        ...

    async def close(self) -> None:
        """Close the store, once."""
        ...
