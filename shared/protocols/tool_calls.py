"""Calls of tools, as OpenAI's protocol and AOG's have them in requests, answers and streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from shared.chat.messages import ToolCall
from shared.http.body import Body
from shared.http.json_encoding import Json, dumps

# An error for each of a million wrong elements would take seconds and gigabytes.
FAST = Field(fail_fast=True)
MAX_BYTES = 256 * 1024  # of all tools as JSON: they are written again for each call of a model
TOO_LARGE = f"must have {MAX_BYTES} bytes at most, together"


class FunctionCall(BaseModel):
    """The function that a call is of."""

    model_config = ConfigDict(strict=True)
    name: str = Field(min_length=1)
    arguments: str | None = None


class RequestToolCall(Protocol):
    """A call as a request has it."""

    @property
    def id(self) -> str:
        """What a tool's message answers to."""
        ...

    @property
    def function(self) -> FunctionCall:
        """The function."""
        ...


def exceed_limit(tools: Any, body: Body) -> bool:
    """Whether the tools of a request are over their limit; those of a small body are not."""
    return body.size > MAX_BYTES and len(dumps(tools)) > MAX_BYTES


def read(calls: Sequence[RequestToolCall] | None) -> Iterator[ToolCall]:
    """The calls of a message."""
    for place, call in enumerate(calls or ()):
        yield ToolCall(place, call.id, call.function.name, call.function.arguments or "")


def part(call: ToolCall) -> Json:
    """A part of a call: only its first has an id and a name."""
    function: Json = {"arguments": call.arguments}
    if call.name is not None:
        function = {"name": call.name, **function}
    begins: Json = {} if call.id is None else {"id": call.id, "type": "function"}
    return {"index": call.index, **begins, "function": function}
