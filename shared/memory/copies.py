"""The seam of answer copies: rated questions and answers, kept with their users' consent.

A copy has no owner. Whoever has its id, which nobody can guess, may delete it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import ceil
from typing import Any, Protocol

from shared.domain.errors import Misconfigured
from shared.memory.base import LimitReached

DAY_SECONDS = 86400
MAX_COPIES = 10_000  # of all users: a copy has no owner, whose limit would count


@dataclass(frozen=True, slots=True)
class EarlierTurn:
    """A question and its answer before those of a copy."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCopy:
    """A question and its answer, with the feedback on it."""

    id: str  # 32 hexadecimal digits
    day: str  # ISO 8601
    question: str
    answer: str
    rating: str
    reasons: tuple[str, ...] = ()
    comment: str = ""
    earlier: tuple[EarlierTurn, ...] = ()  # the turns before it, the oldest first

    def to_json(self) -> dict[str, Any]:
        """Return the copy as JSON."""
        values = asdict(self)
        lists = {name: list(values[name]) for name in ("reasons", "earlier")}
        return {**values, **lists}


def parse_copy(value: Mapping[str, Any]) -> AnswerCopy:
    """Parse the JSON of a copy; keys of other versions are ignored."""
    own = {field.name: value[field.name] for field in fields(AnswerCopy) if field.name in value}
    earlier = (EarlierTurn(each["question"], each["answer"]) for each in own.get("earlier", ()))
    lists = {"reasons": tuple(own.get("reasons", ())), "earlier": tuple(earlier)}
    return AnswerCopy(**{**own, **lists})


def copy_expiry(now: float, days: float | None) -> float | None:
    """Return when a copy expires, in Unix seconds: at the end of a day, UTC; None for never.

    An exact time would show which line of the log belongs to it.
    """
    return (now // DAY_SECONDS + 1 + ceil(days)) * DAY_SECONDS if days else None


@contextmanager
def explain_misconfigured(message: str) -> Iterator[None]:
    """Give a Misconfigured error a message of the store, which says what to do."""
    try:
        yield
    except Misconfigured as error:
        raise Misconfigured(message, cause=error.cause) from error


class TooManyCopies(LimitReached):
    """The deployment has as many copies as it keeps."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"This deployment has {limit:,} copies of answers, and keeps no more. Send the "
            "feedback without a copy."
        )


class AnswerCopies(Protocol):
    """A store of copies. Its methods raise ChatErrors, as those of the conversations do."""

    @property
    def name(self) -> str:
        """What the log and `/health` call the store."""
        ...

    @property
    def days(self) -> float | None:
        """For how long a copy is kept; None is no limit."""
        ...

    async def ready(self) -> None:
        """Check the store. Raises the ChatError that it meets; Misconfigured says what to do."""
        ...

    async def put(self, copy: AnswerCopy) -> None:
        """Store a copy, or replace it: it expires when the first one does.

        Raises TooManyCopies.
        """
        ...

    async def delete(self, id: str) -> bool:
        """Delete a copy. Returns whether it existed."""
        ...

    async def exists(self, id: str) -> bool:
        """Return whether there is a copy of that id, which has not expired."""
        ...

    async def all(self) -> Sequence[AnswerCopy]:
        """Return all copies that have not expired, by their day."""
        ...

    async def close(self) -> None:
        """Close the store, once."""
        ...
