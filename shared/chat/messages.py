"""The messages of a chat and the tool calls in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool that it was offered, or a part of one: `index` says of which.

    `arguments` is text as the model wrote it, JSON or not; a stream's parts add up to it. `id`
    and `name` come with the first part.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said. `images` are URLs, data URLs for what a client uploaded.

    A tool's message says in `tool_call_id` which of the assistant's `tool_calls` it answers.
    `raw` is the message as its client wrote it, for a model that takes it as it is.
    """

    role: Role
    content: str
    images: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    raw: Mapping[str, Any] | None = None
