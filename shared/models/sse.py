"""The chunks of a chat completion's stream, from bytes cut anywhere.

The objects that the SDK builds of each chunk cost more than all the rest of a stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from shared.chat import Delta, Done, ToolCall, Usage
from shared.errors import ChatError, ContentFiltered, TooLong, TooManyRequests, Unavailable

END = b"[DONE]"
LONGEST_LINE = 4 * 1024 * 1024  # bytes; a server that ends no line is not one that answers

# What a model's service says in an error's `code`, in a refusal and in mid-stream alike.
CODES: Mapping[str, type[ChatError]] = {
    "content_filter": ContentFiltered,
    "context_length_exceeded": TooLong,
    "rate_limit_exceeded": TooManyRequests,
    "429": TooManyRequests,
}


async def data(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The data of each event. Only "\\n" ends a line: the SDK's own reader of lines also takes
    U+2028 for an end, which may stand inside a JSON string. Raises Unavailable."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            raise Unavailable(cause="the model's stream has a line without an end")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
    if rest.startswith(b"data:"):
        yield rest[5:].strip()


@dataclass(slots=True)
class Reading:
    """What a stream has told by now, beside its text."""

    model: str
    reason: str | None = None
    usage: Usage | None = None
    fingerprint: str | None = None
    answer_filter: Mapping[str, Any] | None = None
    prompt_filter: list[Any] | None = None
    ended: bool = False

    def take(self, line: bytes) -> Delta | None:
        """What one event adds, if anything. Raises the error in it, Unavailable if unread."""
        if line == END:
            self.ended = True
            return None
        try:
            return self._taken(from_json(line, allow_inf_nan=False))
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise Unavailable(cause="a chunk of the model's stream cannot be read") from error

    def _taken(self, chunk: Any) -> Delta | None:
        if chunk.get("error"):
            raise failure(chunk["error"])
        self._note(chunk)
        # Azure sends chunks without choices: filter results before, usage after the text.
        choice = next(iter(chunk.get("choices") or ()), None)
        if choice is None:
            return None
        reason = choice.get("finish_reason")
        self.reason = reason if isinstance(reason, str) and reason else self.reason
        self.answer_filter = choice.get("content_filter_results") or self.answer_filter
        delta = choice.get("delta") or {}
        text = _text(delta.get("content")) or _text(delta.get("refusal"))
        calls = _calls(delta.get("tool_calls") or ())
        return Delta(text, calls) if text or calls else None

    def _note(self, chunk: Mapping[str, Any]) -> None:
        self.model = chunk.get("model") or self.model
        self.fingerprint = chunk.get("system_fingerprint") or self.fingerprint
        self.prompt_filter = chunk.get("prompt_filter_results") or self.prompt_filter
        self.usage = _usage(chunk.get("usage")) or self.usage

    def done(self) -> Done:
        """The last event. Raises Unavailable where the stream broke off without an end."""
        if not (self.reason or self.ended):
            cause = f"{self.model}: its stream ended without an end"
            raise Unavailable("The model's answer broke off. Ask again.", cause=cause)
        return Done(
            finish_reason=self.reason or "stop",
            usage=self.usage,
            model=self.model,
            fingerprint=self.fingerprint,
            answer_filter=self.answer_filter,
            prompt_filter=self.prompt_filter,
        )


def _text(content: Any) -> str:
    """A delta's text; some servers send it in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content)
    return content if isinstance(content, str) else ""


def _calls(parts: Iterable[Any]) -> tuple[ToolCall, ...]:
    """Parts of calls; a server that sends a call whole may leave out its index."""
    return tuple(_call(place, part) for place, part in enumerate(parts))


def _call(place: int, part: Mapping[str, Any]) -> ToolCall:
    index, called = part.get("index"), part.get("function") or {}
    place = index if isinstance(index, int) else place
    return ToolCall(place, part.get("id"), called.get("name"), "" + (called.get("arguments") or ""))


def _usage(used: Any) -> Usage | None:
    """Tokens, where a server tells both."""
    told = used if isinstance(used, Mapping) else {}
    sent, made = told.get("prompt_tokens"), told.get("completion_tokens")
    return Usage(sent, made) if isinstance(sent, int) and isinstance(made, int) else None


def failure(error: Any) -> ChatError:
    """The error in an event, or in a refusal, by its code. Its text is for nobody but the log."""
    code = str(error.get("code") if isinstance(error, Mapping) else "")
    cause = f"the model's stream ended with an error, code {code!r:.80}"
    return CODES.get(code, Unavailable)(cause=cause)
