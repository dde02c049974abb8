"""A chat request, in the same form for every protocol, and the user who sent it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.chat.messages import Message
from shared.chat.overrides import UNSET, Overrides


@dataclass(frozen=True, slots=True)
class User:
    """The user, from the platform's sign-in; anonymous without it."""

    oid: str | None = None
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    @property
    def is_signed_in(self) -> bool:
        """Whether the user is known."""
        return self.oid is not None


Grounding = Literal["required", "optional", "none"]
"""Whether an answer comes from the sources alone, may have more than these, or has no sources."""


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What goes to the model beside the messages.

    `tools` are offered to it, each as OpenAI's chat completions describe a tool. `parameters` are
    for a model that takes them, by the names of its client's protocol.
    """

    tools: tuple[Mapping[str, Any], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestMetadata:
    """Who sent a request, its id, when it was read (Unix seconds), and what links to documents
    begin with."""

    user: User = User()
    id: str = ""
    created: int = 0
    links: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request, whatever protocol it came by. The last words of the user are the question.

    An earlier message without content is an answer that was broken off: it is kept in its place
    and counts for nothing. `state` is for the protocol's response only, such as a client's state,
    which is any JSON value and goes back unchanged. Without `grounding` ("none") nothing is
    searched. `remote` is the remote provider to ask where one is asked: its name, or a
    description of one. `notes` are sentences about what was left out by now.
    """

    messages: tuple[Message, ...]
    overrides: Overrides = UNSET
    state: Any = None
    grounding: Grounding = "required"
    generation: GenerationOptions = GenerationOptions()
    remote: str | Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    metadata: RequestMetadata = RequestMetadata()

    @property
    def question_index(self) -> int:
        """Where the question stands: behind it there are tools' results, or nothing."""
        questions = (
            index
            for index, message in enumerate(self.messages)
            if message.role == "user" and message.content.strip()
        )
        return max(questions, default=len(self.messages) - 1)

    @property
    def question(self) -> str:
        """The last words of the user."""
        return self.messages[self.question_index].content

    @property
    def history(self) -> tuple[Message, ...]:
        """Everything said before the question, the client's own instructions left out."""
        messages = (m for m in self.messages[: self.question_index] if m.role != "system")
        return tuple(m for m in messages if m.content.strip() or m.images or m.tool_calls)

    @property
    def instructions(self) -> tuple[str, ...]:
        """The client's own instructions: its `system` messages, in order."""
        return tuple(m.content for m in self.messages if m.role == "system" and m.content.strip())
