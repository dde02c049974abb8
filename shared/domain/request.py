"""A chat request, in the same form for every protocol, and the user who sent it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.domain.messages import Message
from shared.domain.overrides import UNSET, Overrides


@dataclass(frozen=True, slots=True)
class User:
    """The user, from the platform's sign-in; anonymous without it."""

    oid: str | None = None
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    tenant: str | None = None
    # The bearer token, where the search checks the user's permissions itself.
    token: str | None = field(default=None, repr=False, compare=False)

    @property
    def is_signed_in(self) -> bool:
        """Whether the user is known."""
        return self.oid is not None


Grounding = Literal["required", "optional", "none"]
"""Whether the answer is limited to the sources, may go beyond them, or has none."""


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options for the model."""

    # Those that it may call, in the form of OpenAI's chat completions.
    tools: tuple[Mapping[str, Any], ...] = ()
    # Sent to a model that supports them, by their names in the client's protocol.
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestMetadata:
    """What the app adds to a request."""

    user: User = User()
    id: str = ""
    created: int = 0  # when the request arrived, in Unix seconds
    links: str = ""  # the beginning of links to documents


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request of any protocol. The question is the last message of the user that has text.

    An earlier message without content is an incomplete answer: it keeps its place and is ignored.
    """

    messages: tuple[Message, ...]
    overrides: Overrides = UNSET
    state: Any = None  # for the protocol's response only, such as a client's state: any JSON value
    grounding: Grounding = "required"  # with "none" nothing is searched
    generation: GenerationOptions = GenerationOptions()
    # The name or the description of the remote provider to use, if any.
    remote: str | Mapping[str, Any] | None = None
    # Sourcefiles of the documents that the question is about, which the user may see.
    documents: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # on parts of the request that were left out
    metadata: RequestMetadata = RequestMetadata()

    @property
    def question_index(self) -> int:
        """The index of the question, which only results of tools can follow."""
        questions = (
            index
            for index, message in enumerate(self.messages)
            if message.role == "user" and message.content.strip()
        )
        return max(questions, default=len(self.messages) - 1)

    @property
    def question(self) -> str:
        """The text of the question."""
        return self.messages[self.question_index].content

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages before the question, without the client's own instructions."""
        messages = (m for m in self.messages[: self.question_index] if m.role != "system")
        return tuple(m for m in messages if m.content.strip() or m.images or m.tool_calls)

    @property
    def instructions(self) -> tuple[str, ...]:
        """The client's own instructions: its `system` messages, in order."""
        return tuple(m.content for m in self.messages if m.role == "system" and m.content.strip())
