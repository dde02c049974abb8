"""The request and response format of a model's server, as pure functions.

One maps a prompt to a request body, the other an object of a response to a DecodedChunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.domain.errors import ChatError, ContentFiltered, TooLong, TooManyRequests, Unavailable
from shared.domain.events import Extra, Usage
from shared.domain.messages import ToolCall
from shared.models.base import Prompt

RequestBody = dict[str, Any]

NO_INDEX = -1  # the index of a tool call whose server sends none

# By the `code` of an error, in an error response and within a stream; llama.cpp has the `type`.
ERROR_CODES: Mapping[str, type[ChatError]] = {
    "content_filter": ContentFiltered,
    "context_length_exceeded": TooLong,
    "exceed_context_size_error": TooLong,
    "rate_limit_exceeded": TooManyRequests,
    "429": TooManyRequests,
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The name, capabilities and limits of a model."""

    name: str  # in responses
    max_prompt_tokens: int
    server_model: str | None = None  # its name in requests; None for the server's default
    reasoning: bool = False
    supports_images: bool = False
    max_answer_tokens: int | None = None  # None leaves the limit to the server
    reasoning_effort: str | None = None
    accept_seconds: float = 60  # limits the time to the headers of a response
    first_seconds: float = 60  # to the first token
    gap_seconds: float = 30  # between tokens
    supports_streaming: bool = True
    # Merged into every request.
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    hint: str = ""  # for the log line of an authentication error


@dataclass(slots=True)  # not frozen, which takes longer: one is made for each token
class DecodedChunk:
    """The content of one object of a response."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    is_last: bool = False  # whether the response ends with it
    model: str | None = None
    usage: Usage | None = None
    fingerprint: str | None = None
    answer_filter: Mapping[str, Any] | None = None
    prompt_filter: list[Any] | None = None
    extra: Extra = field(default_factory=dict)
    message_extra: Extra = field(default_factory=dict)


Decode = Callable[[Mapping[str, Any]], DecodedChunk]


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """The functions of one request and response format."""

    name: str
    # Raises BadRequest for a prompt that the format cannot express.
    build_body: Callable[[ModelConfig, Prompt], RequestBody]
    # Makes the function that decodes the objects of one response. It raises the ChatError in an
    # object; ValueError, TypeError, AttributeError or LookupError for an invalid one.
    make_decode: Callable[[], Decode]
    framing: Literal["sse", "ndjson"] = "sse"  # of a stream
    has_end_marker: bool = True  # whether `[DONE]` ends a stream
    tool_calls_reason: str | None = None  # replaces the finish reason `stop` of tool calls
    unsupported: tuple[str, ...] = ()  # options of OpenAI's clients that it cannot express
    # Returns the URL of a health check; None if there is none.
    ready_url: Callable[[str], str | None] = lambda _: None


def merge_json(body: RequestBody, more: Mapping[str, Any]) -> RequestBody:
    """Merge JSON objects: nested objects are merged, null removes, other values replace."""
    merged = {key: value for key, value in body.items() if more.get(key, value) is not None}
    for key, value in more.items():
        inner = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = merge_json(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            merged[key] = value
    return merged


def drop_none(fields: Mapping[str, Any]) -> RequestBody:
    """Return the fields without those that are None."""
    return {key: value for key, value in fields.items() if value is not None}


def select_fields(fields: Mapping[str, Any], names: Iterable[str]) -> RequestBody:
    """Return the fields of these names, as far as there are any."""
    return {name: fields[name] for name in names if name in fields}


def to_error(error: Any) -> ChatError:
    """Map the error in an event to a ChatError by its code."""
    code = str(error.get("code") if isinstance(error, Mapping) else "")
    cause = f"the model's stream ended with an error, code {code!r:.80}"
    return ERROR_CODES.get(code, Unavailable)(cause=cause)
