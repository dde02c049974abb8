"""The parts and the tool calls of messages, as several chat protocols have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema

from shared.domain.errors import BadRequest
from shared.domain.messages import ToolCall
from shared.http.body import Body
from shared.http.call import Json, dumps

# An error for each of a million wrong elements would take seconds and gigabytes.
FAST = Field(fail_fast=True)
MAX_BYTES = 256 * 1024  # of all tools as JSON: they are written again for each call of a model


# The field that has the value of a part, by the part's type; other types have a `text`.
PART_FIELDS = {"refusal": "refusal", "image_url": "image_url", "input_image": "image_url"}


class ContentPart(BaseModel, strict=True):
    """A part of a message's content. Each protocol limits the types, and the form of an image."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: Any = None


def parse_part(path: str, part: ContentPart, fail: Callable[[str, str], BadRequest]) -> Json:
    """Return a part in the form of chat completions: as an image, or as text, also a refusal.

    Raises what `fail` makes of the path and the message of a missing value.
    """
    name = PART_FIELDS.get(part.type, "text")
    value = getattr(part, name)
    if value is None:
        raise fail(f"{path}.{name}", "is required")
    if name != "image_url":
        return format_text(value)
    url = {"url": value} if isinstance(value, str) else value.model_dump(exclude_none=True)
    return {"type": "image_url", "image_url": url}


def format_text(text: str) -> Json:
    """Return a part of text."""
    return {"type": "text", "text": text}


def join_texts(parts: Iterable[Json]) -> str:
    """Join the texts of parts."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def image_urls(parts: Iterable[Json]) -> tuple[str, ...]:
    """Return the URLs of the images among parts."""
    return tuple(part["image_url"]["url"] for part in parts if part["type"] == "image_url")


class RequestFunction(BaseModel, strict=True):
    """The function that a tool call in a request names."""

    name: str = Field(min_length=1)
    arguments: str | None = None


class RequestToolCall(BaseModel, strict=True):
    """A tool call in a request."""

    id: str = Field(min_length=1)  # which the message of the tool names
    type: Literal["function"] | None = None
    function: RequestFunction


def _check_choice(choice: Any) -> Any:
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if not isinstance(kind, str):
        raise ValueError("must be a string, or an object with a type")
    return choice


ToolChoice = Annotated[
    Any,
    AfterValidator(_check_choice),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"type": {"type": "string"}},
                    "required": ["type"],
                },
            ]
        }
    ),
]
"""Which tools a model may call, or must: what is of no known form is its server's to refuse."""


def check_tools(body: Body) -> None:
    """Raise BadRequest for `tools` over their limit; those of a small body are not."""
    if body.size > MAX_BYTES and len(dumps(body.json.get("tools"))) > MAX_BYTES:
        raise BadRequest(f"must have {MAX_BYTES} bytes at most, together", field="tools")


def parse_tool_calls(calls: Iterable[RequestToolCall] | None) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message."""
    return tuple(
        ToolCall(index, call.id, call.function.name, call.function.arguments or "")
        for index, call in enumerate(calls or ())
    )


def format_call_part(call: ToolCall) -> Json:
    """Return the JSON of a part of a tool call: only the first part has an id and a name."""
    function: Json = {"arguments": call.arguments}
    if call.name is not None:
        function = {"name": call.name, **function}
    begins: Json = {} if call.id is None else {"id": call.id, "type": "function"}
    return {"index": call.index, **begins, "function": function}
