"""The Model protocol: what the app needs of a language model; the limit on its answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from shared.domain.errors import Unavailable
from shared.domain.events import Delta, Done
from shared.domain.messages import Message

# Characters. The longest answers of models have 128,000 tokens, of about 5 characters each.
MAX_LENGTH = 4 * 1024 * 1024
PART_LENGTH = 16  # what a part counts beside its text: an empty one takes memory, too
EXCEEDED = f"The model's answer is longer than the limit of {MAX_LENGTH:,} characters."

ModelStream = AsyncGenerator[Delta | Done, None]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The input of a model: to rewrite a question for the search, or to answer it."""

    task: Literal["rewrite", "answer"]
    messages: tuple[Message, ...]
    temperature: float
    seed: int | None = None
    # Those that it may call, each in the format of OpenAI's chat completions.
    tools: tuple[Mapping[str, Any], ...] = ()
    # Other parameters of the client: a model uses those that it supports.
    options: Mapping[str, Any] = field(default_factory=dict)


class Model(Protocol):
    """A language model, local or remote."""

    @property
    def name(self) -> str:
        """The name of the model in answers."""
        ...

    @property
    def max_prompt_tokens(self) -> int:
        """The budget for a prompt: history and sources are trimmed to it."""
        ...

    @property
    def limits(self) -> Mapping[str, str]:
        """Sentences on what it does not support, by the name of the option.

        `images`, `tools`, `temperature`, `seed`, other parameters of a client, `streaming` (its
        answer comes in one piece).
        """
        ...

    def count(self, text: str) -> int:
        """Return how many tokens `text` has at most."""
        ...

    async def ready(self) -> None:
        """Check, free of charge, that it would answer. Raises the ChatError that it meets."""
        ...

    def open(self, prompt: Prompt) -> AbstractAsyncContextManager[ModelStream]:
        """Send a prompt. Entered when the model has accepted it, so a refusal is raised there.

        The stream yields any Deltas and then one Done, each when the model sends it. Leaving the
        context closes the stream, read to its end or not. No time limit, task group or context
        variable may span a yield of the stream: its first event is read in another task than the
        rest.

        Raises a ChatError: ContentFiltered, TooLong, TooManyRequests, Unavailable, Misconfigured.
        """
        ...


@dataclass(slots=True)
class AnswerLength:
    """The length of an answer in characters, so far: its text, tool calls and other fields."""

    total: int = 0
    fields: dict[str, int] = field(default_factory=dict)  # the lengths of the fields of `extra`

    def add(self, delta: Delta) -> None:
        """Add a Delta. Raises Unavailable if the answer is longer than MAX_LENGTH."""
        self.total += PART_LENGTH + len(delta.content)
        for call in delta.tool_calls:
            self.total += PART_LENGTH + _length(call.id, call.name, call.arguments)
        if delta.message_extra:  # whose values are joined
            self.total += _length(*delta.message_extra, *delta.message_extra.values())
        self.replace(delta.extra)

    def replace(self, fields: Mapping[str, Any]) -> None:
        """Add fields, each in place of an earlier one of its name. Raises Unavailable."""
        for name, value in fields.items():
            length = PART_LENGTH + _length(name, value)
            self.total += length - self.fields.get(name, 0)
            self.fields[name] = length
        if self.total > MAX_LENGTH:
            raise Unavailable(f"{EXCEEDED} Ask for a shorter one.", cause=EXCEEDED)


def _length(*values: Any) -> int:
    return sum(len(str(value)) for value in values)
