"""How are models of other servers spoken to? Pure functions: a prompt in, a body out; an object of
an answer in, what it says out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shared.chat.content_parts import is_json_safe
from shared.chat.errors import ChatError, ContentFiltered, TooLong, TooManyRequests, Unavailable
from shared.chat.events import Extra, Usage
from shared.chat.messages import ToolCall
from shared.models.base import Prompt

RequestBody = dict[str, Any]

UNPLACED = -1  # the index of a call whose server does not say which it is

# What a model's service says in an error's `code`, in a refusal and in mid-stream alike.
CODES: Mapping[str, type[ChatError]] = {
    "content_filter": ContentFiltered,
    "context_length_exceeded": TooLong,
    "rate_limit_exceeded": TooManyRequests,
    "429": TooManyRequests,
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a model is and takes. `seconds`: to accept, to the first token, between tokens.

    `name` is what answers call it, `asked` the name that its server knows: None where that server
    has one of its own. `answer_tokens` is the most that it may write, None for its own limit.
    `effort` is a reasoning model's `reasoning_effort`. `streams`: whether it can answer in pieces.
    `more` goes into every request. `hint` is what to look at where it refuses us, for the log.
    """

    name: str
    max_prompt_tokens: int
    asked: str | None = None
    reasoning: bool = False
    seeing: bool = False
    answer_tokens: int | None = None
    effort: str | None = None
    accept_seconds: float = 60
    first_seconds: float = 60
    gap_seconds: float = 30
    streams: bool = True
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    hint: str = ""


@dataclass(frozen=True, slots=True)
class DecodedChunk:
    """What one object of an answer says: a part of it, its end, or something beside it.

    `ended`: nothing comes behind it.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reason: str | None = None
    ended: bool = False
    model: str | None = None
    usage: Usage | None = None
    fingerprint: str | None = None
    answer_filter: Mapping[str, Any] | None = None
    prompt_filter: list[Any] | None = None
    extra: Extra = field(default_factory=dict)
    message_extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """One way to speak to a model's server.

    `body` may raise BadRequest for what its server does not take; `heard` raises the error that an
    object tells, and ValueError, TypeError, AttributeError or LookupError where it is none of an
    answer. `framing` is that of a stream. `called` is how an answer ends that calls tools, for a
    server that says of such an answer that it just stopped. `ready` is
    the address that tells whether the server is there; None where none does.
    """

    name: str
    body: Callable[[ModelConfig, Prompt], RequestBody]
    heard: Callable[[Mapping[str, Any]], DecodedChunk]
    framing: Literal["sse", "ndjson"] = "sse"
    called: str | None = None
    ready: Callable[[str], str | None] = lambda _: None


def merged(body: RequestBody, more: Mapping[str, Any]) -> RequestBody:
    """A body with more in it: objects are joined, null takes out, anything else is replaced."""
    joined = {key: value for key, value in body.items() if more.get(key, value) is not None}
    for key, value in more.items():
        inner = joined.get(key)
        if isinstance(value, Mapping):
            joined[key] = merged(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            joined[key] = value
    return joined


def extra_fields(given: Mapping[str, Any], *known: str) -> Extra:
    """What an object says beside what is known of it; null says nothing, and what JSON cannot
    hold (1e400, read as infinity) cannot be passed on."""
    return {
        key: value
        for key, value in given.items()
        if key not in known and value is not None and is_json_safe(value)
    }


def failure(error: Any) -> ChatError:
    """The error in an event, or in a refusal, by its code. Its text is for nobody but the log."""
    code = str(error.get("code") if isinstance(error, Mapping) else "")
    cause = f"the model's stream ended with an error, code {code!r:.80}"
    return CODES.get(code, Unavailable)(cause=cause)


def calls(parts: Any) -> tuple[ToolCall, ...]:
    """Parts of calls; a server that sends a call whole may leave out its index."""
    return tuple(_call(part) for part in parts or ())


def _call(part: Mapping[str, Any]) -> ToolCall:
    index, called = part.get("index"), part.get("function") or {}
    given = called.get("arguments")
    text = given if isinstance(given, str) else json.dumps(given, allow_nan=False)
    place = index if isinstance(index, int) else UNPLACED
    name = called.get("name") or None
    return ToolCall(place, part.get("id") or None, name, "" if given is None else text)


def usage(sent: Any, made: Any) -> Usage | None:
    """Tokens, where a server tells both."""
    return Usage(sent, made) if isinstance(sent, int) and isinstance(made, int) else None
