"""The seam behind which conversations are kept, with what was said in them, and pipelines.

All but a pipeline belongs to an owner. What is another's, what is not there and what is past its
time look the same: NotFound. Every method has a time limit of its own, and raises a ChatError where
the store cannot do it: TooManyRequests, Unavailable, Misconfigured, DeadlineExceeded; then nothing
is half done, and with few exceptions (an answer of the service that was lost twice) nothing at all.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Protocol

from shared.chat.errors import BadRequest, NotFound

Clock = Callable[[], float]
"""The time in Unix seconds."""
Definition = Mapping[str, Any]
"""A pipeline, as JSON."""

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many seconds a conversation is stored, from its first moment, and how many an owner
    has at most. None is without a limit."""

    seconds: float | None = None
    max_conversations: int | None = None


UNLIMITED = Retention()


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a sorted list: at most `size` entries from the position `start` on.

    A position is no snapshot: what is created meanwhile moves the others.
    """

    start: int = 0
    size: int = 10


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation. `created` is ISO 8601 in UTC, with microseconds."""

    id: str
    name: str
    created: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What a human asked and what was answered; a text that is missing is empty.

    `prompt_template` is what the model was told, `origin` who answered, `additional_info` what
    else went into it.
    """

    input: str = ""
    prompt_template: str = ""
    response: str = ""
    origin: str = ""
    additional_info: str = ""


@dataclass(frozen=True, slots=True)
class Interaction:
    """One question and its answer, in a conversation. `created` is as a conversation's."""

    id: str
    conversation: str
    created: str
    turn: Turn


class Conversations(Protocol):
    """The conversations of each owner."""

    async def create(self, owner: str, name: str) -> Conversation:
        """Begin one; it is later than any other that was begun here.

        Raises TooManyConversations where the owner has as many as the store's Retention allows.
        """
        ...

    async def get(self, owner: str, conversation: str) -> Conversation:
        """The one with that id. Raises NotFound."""
        ...

    async def list(self, owner: str, page: PageRequest) -> tuple[Conversation, ...]:
        """A part of the owner's, by the time they were created, the newest first."""
        ...

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        """Give one another name. Raises NotFound."""
        ...

    async def delete(self, owner: str, conversation: str) -> None:
        """Remove one with all that was said in it. Raises NotFound.

        Broken off, it can be repeated until it is done; nothing of the conversation is seen
        from the moment that it began.
        """
        ...


class Interactions(Protocol):
    """What was said in the conversations of each owner."""

    async def add(self, owner: str, conversation: str, said: Turn) -> Interaction:
        """Put one at the end of a conversation. Raises NotFound where there is none."""
        ...

    async def get(self, owner: str, interaction: str) -> Interaction:
        """The one with that id, in whichever conversation. Raises NotFound."""
        ...

    async def list(
        self, owner: str, conversation: str, page: PageRequest, newest_first: bool = True
    ) -> tuple[Interaction, ...]:
        """A part of a conversation, by the time of what was said. Raises NotFound."""
        ...

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        """Replace the additional information of one. Raises NotFound."""
        ...


class Pipelines(Protocol):
    """The pipelines of the deployment, by name."""

    async def put(self, name: str, definition: Definition) -> None:
        """Store one, in the place of another of that name."""
        ...

    async def get(self, name: str) -> Definition | None:
        """The one of that name; None where there is none."""
        ...

    async def all(self) -> Mapping[str, Definition]:
        """Every one, by name."""
        ...

    async def delete(self, name: str) -> bool:
        """Remove one; whether there was one."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """A store. `ready` asks at no cost whether it would answer, as the other seams' does."""

    name: str
    conversations: Conversations
    interactions: Interactions
    pipelines: Pipelines
    ready: Callable[[], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class GeneratedId:
    """The id of something new, and its time. Ids sort as the times do."""

    id: str
    created: str


class IdGenerator:
    """Ids and times, chosen before a store is asked, so that a write can be sent twice.

    Each is later than the one before, whatever the clock does.
    """

    def __init__(self, now: Clock = time.time) -> None:
        self._now, self._last, self._turn = now, datetime.min.replace(tzinfo=UTC), Lock()

    def next(self) -> GeneratedId:
        """The next one."""
        with self._turn:
            moment = max(datetime.fromtimestamp(self._now(), UTC), self._last + MICROSECOND)
            self._last = moment
        microseconds = (moment - datetime.fromtimestamp(0, UTC)) // MICROSECOND
        return GeneratedId(f"{microseconds:014x}{secrets.token_hex(5)}", to_iso(moment))


def to_iso(moment: datetime) -> str:
    """ISO 8601 in UTC, always with microseconds: such times sort as texts."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class TooManyConversations(BadRequest):
    """The owner has as many conversations as are stored for one."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The limit of {limit:,} stored conversations is reached: delete some to begin another."
        )


def conversation_not_found(conversation: str) -> NotFound:
    """The failure for one that is missing, or another's."""
    return NotFound(f"Conversation [{conversation}] not found")


def interaction_not_found(interaction: str) -> NotFound:
    """The failure for one that is missing, or another's."""
    return NotFound(f"Interaction [{interaction}] not found")
