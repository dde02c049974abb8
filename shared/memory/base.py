"""The protocols of a store of conversations, their interactions, and pipelines.

Conversations and interactions belong to an owner. Those that are missing, expired or another
owner's all raise NotFound. Every method has a time limit, and raises a ChatError when the store
fails: TooManyRequests, Unavailable, Misconfigured, DeadlineExceeded. Writes are atomic; only a
response that is lost twice leaves the outcome unknown.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, Protocol

from shared.domain.errors import BadRequest, NotFound

Clock = Callable[[], float]
"""The time in Unix seconds."""
Definition = Mapping[str, Any]
"""The definition of a pipeline, as JSON."""

MICROSECOND = timedelta(microseconds=1)
TURN_OVERHEAD_BYTES = 1000  # of a turn, besides its texts: they limit the number of turns


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of what an owner stores; None is no limit.

    Expired conversations and their turns do not count.
    """

    seconds: float | None = None  # from the creation of a conversation to its expiry
    max_conversations: int | None = None
    max_bytes: int | None = None  # of all turns; the last one may exceed it

    def expiry(self, created: str) -> float | None:
        """Return when a conversation expires, in Unix seconds; None if it does not."""
        if self.seconds is None:
            return None
        return datetime.fromisoformat(created).timestamp() + self.seconds


UNLIMITED = Retention()


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page of a sorted list.

    Pages are not of one snapshot: entries that are created meanwhile move the others.
    """

    start: int = 0  # the position of the first entry
    size: int = 10  # the maximum number of entries


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation."""

    id: str
    name: str
    created: str  # ISO 8601 in UTC, with microseconds


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer; a missing text is empty."""

    input: str = ""
    prompt_template: str = ""  # the instructions of the model
    response: str = ""
    origin: str = ""  # the component that answered
    additional_info: str = ""  # the other input of the model
    parent: str = ""  # the id of the interaction that it continues, if its protocol has one
    details: str = ""  # JSON of the protocol that stored it
    request: str = ""  # the `x-request-id` of the answer
    feedback: str = ""  # the owner's rating of the answer, as JSON


@dataclass(frozen=True, slots=True)
class Interaction:
    """A turn that is stored in a conversation."""

    id: str
    conversation: str  # its id
    created: str  # as a conversation's
    turn: Turn


class Conversations(Protocol):
    """The conversations of all owners."""

    async def create(self, owner: str, name: str) -> Conversation:
        """Create a conversation; it sorts behind all that this process has created.

        Raises LimitReached if the owner has stored as much as the store's Retention allows.
        """
        ...

    async def get(self, owner: str, conversation: str) -> Conversation:
        """Return the conversation with that id. Raises NotFound."""
        ...

    async def list(self, owner: str, page: PageRequest) -> tuple[Conversation, ...]:
        """Return a page of an owner's conversations by creation time, the newest first."""
        ...

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        """Rename a conversation. Raises NotFound."""
        ...

    async def delete(self, owner: str, conversation: str) -> None:
        """Delete a conversation with its interactions. Raises NotFound.

        From its start nothing of the conversation can be read. A deletion that fails can be
        repeated.
        """
        ...


class Interactions(Protocol):
    """The interactions of all conversations."""

    async def add(
        self, owner: str, conversation: str, turn: Turn, id: GeneratedId | None = None
    ) -> Interaction:
        """Append a turn to a conversation, with an id of the store's `new_id`, or a new one.

        Raises NotFound if the conversation is missing, LimitReached as `Conversations.create`.
        """
        ...

    async def get(self, owner: str, interaction: str) -> Interaction:
        """Return the interaction with that id, of any conversation. Raises NotFound."""
        ...

    async def list(
        self, owner: str, conversation: str, page: PageRequest, newest_first: bool = True
    ) -> tuple[Interaction, ...]:
        """Return a page of a conversation by creation time. Raises NotFound."""
        ...

    async def find(self, owner: str, request: str) -> Interaction:
        """Return the newest interaction whose answer has that request id. Raises NotFound."""
        ...

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        """Replace the additional information of an interaction. Raises NotFound, LimitReached."""
        ...

    async def rate(self, owner: str, interaction: str, feedback: str) -> None:
        """Replace the feedback of an interaction. Raises NotFound, LimitReached."""
        ...

    async def delete(self, owner: str, interaction: str) -> None:
        """Delete an interaction. Raises NotFound."""
        ...


class Pipelines(Protocol):
    """The pipelines of the deployment, by name."""

    async def put(self, name: str, definition: Definition) -> None:
        """Create or replace a pipeline."""
        ...

    async def get(self, name: str) -> Definition | None:
        """Return the pipeline of that name; None if there is none."""
        ...

    async def all(self) -> Mapping[str, Definition]:
        """Return all pipelines by name."""
        ...

    async def delete(self, name: str) -> bool:
        """Delete a pipeline. Returns whether it existed."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """A store."""

    name: str
    conversations: Conversations
    interactions: Interactions
    pipelines: Pipelines
    new_id: Callable[[], GeneratedId]  # of an interaction that will be added later
    ready: Callable[[], Awaitable[None]]  # checks the store; raises the ChatError that it meets
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class GeneratedId:
    """A new id and its time. Ids sort by time."""

    id: str
    created: str


class IdGenerator:
    """Generates ids and times. The app generates them, so that a write can be sent twice.

    Times strictly increase, even if the clock does not.
    """

    def __init__(self, now: Clock = time.time) -> None:
        self._now, self._last, self._lock = now, datetime.min.replace(tzinfo=UTC), Lock()

    def next(self) -> GeneratedId:
        """Return a new id."""
        with self._lock:
            moment = max(datetime.fromtimestamp(self._now(), UTC), self._last + MICROSECOND)
            self._last = moment
        microseconds = (moment - datetime.fromtimestamp(0, UTC)) // MICROSECOND
        return GeneratedId(f"{microseconds:014x}{secrets.token_hex(5)}", to_iso(moment))


def to_iso(moment: datetime) -> str:
    """Format a time as ISO 8601 in UTC, always with microseconds, so that texts sort by time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LimitReached(BadRequest):
    """The owner has stored as much as the store's Retention allows; the message says what to do."""


class TooManyBytes(LimitReached):
    """The turns of the owner's conversations have the maximum of bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The limit of {limit / 1e6:g} MB of stored conversations is reached: delete some to "
            "store more."
        )


class TooManyConversations(LimitReached):
    """The owner has the maximum number of conversations."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The limit of {limit:,} stored conversations is reached: delete some to begin another."
        )


def conversation_not_found(conversation: str) -> NotFound:
    """Return the error for a conversation that is missing, expired or another owner's."""
    return NotFound(f"Conversation [{conversation}] not found")


def answer_not_found(request: str) -> NotFound:
    """Return the error for an answer that is not stored, expired or another owner's."""
    return NotFound(f"No stored answer of yours has the x-request-id [{request}].")


def interaction_not_found(interaction: str) -> NotFound:
    """Return the error for an interaction that is missing, expired or another owner's."""
    return NotFound(f"Interaction [{interaction}] not found")
