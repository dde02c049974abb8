"""The items of a request's `input`, as messages of a chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field

from shared.domain.messages import (
    MAX_MESSAGES,
    Message,
    Role,
    ToolCall,
    check_image_url,
    tool_call_json,
)
from shared.http import body
from shared.http.body import InvalidField, without_nulls
from shared.http.call import Json
from shared.protocols.message_json import (
    ContentPart,
    format_text,
    image_urls,
    join_texts,
    parse_part,
)
from shared.protocols.openai.file_parts import InputFile, parse_file, split_files
from shared.protocols.openai.request import ROLES
from shared.protocols.openai.responses.errors import INVALID, MISSING, UNSUPPORTED, ParameterError

MAX_PLACE = 200  # characters of a place in an error: it may name a key of the client's
M = TypeVar("M", bound=BaseModel)
IGNORED = ("reasoning", "file_search_call")  # of earlier answers, which clients send back
PARTS = ("input_text", "output_text", "text", "refusal", "input_image", "input_file")
UNAVAILABLE = "is not available here: send texts, and images as input_image with an image_url"


# The JSON schema of `input`.
INPUT: Json = {
    "description": "A question, or items: messages, function calls and their outputs, references "
    "to items of stored responses, and those of earlier answers, which are ignored.",
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": MAX_MESSAGES},
    ],
}


class _Message(BaseModel, strict=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: Any


class _Call(BaseModel, strict=True):
    call_id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    arguments: str = ""


class _Output(BaseModel, strict=True):
    call_id: str = Field(min_length=1)
    output: Any


class _Part(ContentPart, InputFile):
    image_url: str | None = None
    detail: str | None = Field(default=None, max_length=20)


class _Reference(BaseModel, strict=True):
    id: str = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Item:
    """A message of `input`."""

    path: str  # in the request
    message: Message


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to an item of a stored response."""

    path: str  # in the request
    id: str


def validate(model: type[M], value: Any, path: str = "") -> M:
    """Validate an object of the request, in which null means missing. Raises ParameterError."""
    return body.validate(model, without_nulls(value), path, _parameter_error)


def _parameter_error(fields: Sequence[InvalidField]) -> ParameterError:
    field = fields[0]
    code = {"missing": MISSING, "literal_error": UNSUPPORTED}.get(field.kind, INVALID)
    return ParameterError(field.path[:MAX_PLACE], field.message, code)


def parse_items(value: Any) -> tuple[Item | Reference, ...]:
    """Parse `input`: a string, or a list of items. Raises ParameterError."""
    if isinstance(value, str):
        return (Item("input", text_message("user", value)),)
    if value is None:
        raise ParameterError("input", "is required", MISSING)
    if not isinstance(value, list):
        raise ParameterError("input", "must be a string or a list of items")
    if len(value) > MAX_MESSAGES:
        raise ParameterError("input", f"must have {MAX_MESSAGES} entries at most")
    items = (_parse_item(f"input[{place}]", each) for place, each in enumerate(value))
    parsed = tuple(item for item in items if item is not None)
    if not parsed:
        raise ParameterError("input", "must not be empty")
    return parsed


def text_message(role: Role, text: str) -> Message:
    """Return a message of text."""
    return Message(role, text, raw={"role": role, "content": text})


def _parse_item(path: str, item: Any) -> Item | Reference | None:
    """Parse an item; None for one that is ignored. Raises ParameterError."""
    if not isinstance(item, dict):
        raise ParameterError(path, "must be an object")
    kind = item.get("type") or "message"
    if kind in IGNORED:
        return None
    match kind:
        case "message":
            return Item(path, _parse_message(path, item))
        case "function_call":
            return Item(path, _parse_call(path, item))
        case "function_call_output":
            return Item(path, _parse_output(path, item))
        case "item_reference":
            return Reference(path, validate(_Reference, item, path).id)
    raise ParameterError(f"{path}.type", "is not available here", UNSUPPORTED)


def _parse_message(path: str, item: Any) -> Message:
    message = validate(_Message, item, path)
    parts = _parse_parts(f"{path}.content", message.content)
    role = ROLES[message.role]
    parts, files = split_files(role, parts)
    is_text = isinstance(message.content, str)
    return Message(
        role,
        join_texts(parts),
        images=image_urls(parts),
        files=files,
        raw={"role": role, "content": message.content if is_text else parts or ""},
    )


def _parse_parts(path: str, content: Any) -> list[Json]:
    """Return the parts of a content, in the form of chat completions. Raises ParameterError."""
    if isinstance(content, str):
        return [format_text(content)]
    if not isinstance(content, list):
        raise ParameterError(path, "must be a string or a list of parts")
    return [_parse_part(f"{path}[{place}]", part) for place, part in enumerate(content)]


def _parse_part(path: str, value: Any) -> Json:
    part = validate(_Part, value, path)
    if part.type not in PARTS:
        raise ParameterError(f"{path}.type", UNAVAILABLE, UNSUPPORTED)
    if part.type == "input_file":
        return parse_file(path, part)
    if part.type != "input_image":
        return parse_part(path, part, partial(ParameterError, code=MISSING))
    if part.image_url is None:
        raise ParameterError(path, UNAVAILABLE, UNSUPPORTED)  # an image by its file_id
    try:
        url = check_image_url(part.image_url)
    except ValueError as error:
        raise ParameterError(f"{path}.image_url", str(error)) from None
    detail = {"detail": part.detail} if part.detail else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _parse_call(path: str, item: Any) -> Message:
    call = validate(_Call, item, path)
    return call_message([ToolCall(0, call.call_id, call.name, call.arguments)])


def call_message(calls: Iterable[ToolCall]) -> Message:
    """Return the assistant's message with tool calls."""
    calls = tuple(replace(call, index=index) for index, call in enumerate(calls))
    raw = {"role": "assistant", "content": None, "tool_calls": [*map(tool_call_json, calls)]}
    return Message("assistant", "", tool_calls=calls, raw=raw)


def _parse_output(path: str, item: Any) -> Message:
    output = validate(_Output, item, path)
    parts = _parse_parts(f"{path}.output", output.output)
    if any(part["type"] != "text" for part in parts):
        raise ParameterError(f"{path}.output", "must have texts only", UNSUPPORTED)
    text = join_texts(parts)
    raw = {"role": "tool", "content": text, "tool_call_id": output.call_id}
    return Message("tool", text, tool_call_id=output.call_id, raw=raw)


def join_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages, with calls that follow each other in one message, as models have it."""
    for are_calls, group in groupby(messages, lambda message: bool(message.tool_calls)):
        if are_calls:
            yield call_message(chain.from_iterable(message.tool_calls for message in group))
        else:
            yield from group
