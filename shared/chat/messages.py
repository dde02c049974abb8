"""The messages of a chat and the tool calls in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool, or a part of one; `index` identifies the call.

    `arguments` is the model's text, JSON or not; the parts of a stream are concatenated. `id` and
    `name` come with the first part.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a chat. `images` are URLs: data URLs for uploads.

    `tool_call_id` of a tool's message names the assistant's `tool_calls` entry that it answers.
    `raw` is the client's original message, for a model that accepts it unchanged.
    """

    role: Role
    content: str
    images: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    raw: Mapping[str, Any] | None = None
