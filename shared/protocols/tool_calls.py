"""Tool calls, as OpenAI's protocol and AOG's have them in requests, answers and streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from shared.domain.messages import ToolCall
from shared.http.body import Body
from shared.http.json_encoding import Json, dumps

# An error for each of a million wrong elements would take seconds and gigabytes.
FAST = Field(fail_fast=True)
MAX_BYTES = 256 * 1024  # of all tools as JSON: they are written again for each call of a model
TOO_LARGE = f"must have {MAX_BYTES} bytes at most, together"


class RequestFunction(BaseModel, strict=True):
    """The function that a tool call in a request names."""

    name: str = Field(min_length=1)
    arguments: str | None = None


class RequestToolCall(BaseModel, strict=True):
    """A tool call in a request. A tool's message answers to its `id`."""

    id: str = Field(min_length=1)
    type: Literal["function"] | None = None
    function: RequestFunction


def _check_choice(choice: Any) -> Any:
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if not isinstance(kind, str):
        raise ValueError("must be a string, or an object with a type")
    return choice


ToolChoice = Annotated[Any, AfterValidator(_check_choice)]
"""Which tools a model may call, or must: what is of no known form is its server's to refuse."""


def exceed_limit(tools: Any, body: Body) -> bool:
    """Return whether the tools of a request are over their limit; those of a small body are not."""
    return body.size > MAX_BYTES and len(dumps(tools)) > MAX_BYTES


def parse_tool_calls(calls: Iterable[RequestToolCall] | None) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message."""
    return tuple(
        ToolCall(index, call.id, call.function.name, call.function.arguments or "")
        for index, call in enumerate(calls or ())
    )


def format_part(call: ToolCall) -> Json:
    """Return the JSON of a part of a tool call: only the first part has an id and a name."""
    function: Json = {"arguments": call.arguments}
    if call.name is not None:
        function = {"name": call.name, **function}
    begins: Json = {} if call.id is None else {"id": call.id, "type": "function"}
    return {"index": call.index, **begins, "function": function}
