"""Decodes the response of a model's server from chunks of bytes.

The SDK's own decoder would take more CPU time than the rest of the app for a stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import from_json

from shared.chat.errors import Unavailable
from shared.chat.events import ByteStream, Delta, Done, Usage
from shared.chat.messages import ToolCall
from shared.models.formats.base import NO_INDEX, DecodedChunk, ModelFormat

DONE_MARKER = b"[DONE]"
MAX_BYTES = 4 * 1024 * 1024  # of a line or a body


async def split_lines(chunks: AsyncIterator[bytes]) -> ByteStream:
    """Split a stream into lines at "\\n" only. Raises Unavailable.

    The SDK's line reader also splits at U+2028, which JSON strings may contain.
    """
    buffer = bytearray()  # bytes would be copied with each chunk
    async for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield bytes(buffer + end)
            buffer.clear()
        buffer += rest
        if len(buffer) > MAX_BYTES:
            raise Unavailable(cause="the model's stream has a line without an end")
    yield bytes(buffer)


async def sse_data(chunks: AsyncIterator[bytes]) -> ByteStream:
    """Yield the data of each server-sent event."""
    async with aclosing(split_lines(chunks)) as each:
        async for line in each:
            if line.startswith(b"data:"):
                yield line[5:].strip()


async def json_lines(chunks: AsyncIterator[bytes]) -> ByteStream:
    """Yield the lines of JSON."""
    async with aclosing(split_lines(chunks)) as each:
        async for line in each:
            if text := line.strip():
                yield text


async def read_body(chunks: AsyncIterator[bytes]) -> ByteStream:
    """Yield the whole body. Raises Unavailable."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_BYTES:
            raise Unavailable(cause="the model's answer has no end")
    yield bytes(body)


FRAMINGS: Mapping[str, Callable[[AsyncIterator[bytes]], ByteStream]] = {
    "sse": sse_data,
    "ndjson": json_lines,
}


@dataclass(slots=True)
class StreamDecoder:
    """Decodes the objects of one response, and collects what they report beside its text.

    `model` is the requested name until the server reports its own. `indexes_by_id` are the indexes
    of tool calls by their ids, `last_index` is the highest one.
    """

    format: ModelFormat
    model: str
    finish_reason: str | None = None
    usage: Usage | None = None
    fingerprint: str | None = None
    answer_filter: Mapping[str, Any] | None = None
    prompt_filter: list[Any] | None = None
    has_ended: bool = False
    calls: dict[int, ToolCall] = field(default_factory=dict)
    indexes_by_id: dict[str, int] = field(default_factory=dict)
    last_index: int = -1
    has_content: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    message_extra: dict[str, Any] = field(default_factory=dict)

    def decode(self, line: bytes) -> Delta | None:
        """Decode one object to a Delta, if it has content. Raises the error in it, Unavailable."""
        if line == DONE_MARKER:
            self.has_ended = True
            return None
        try:
            chunk = self.format.decode(from_json(line, allow_inf_nan=False))
            return self._delta(chunk)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise Unavailable(cause="a chunk of the model's stream cannot be read") from error

    def _delta(self, chunk: DecodedChunk) -> Delta | None:
        self._update(chunk)
        calls = tuple(self._with_index(call) for call in chunk.calls)
        has_extra = any(value not in ("", [], {}) for value in chunk.message_extra.values())
        self.message_extra |= chunk.message_extra
        if not (chunk.text or calls or has_extra):
            return None
        self.has_content = True
        extra, self.extra = self.extra, {}
        message_extra, self.message_extra = self.message_extra, {}
        return Delta("" + chunk.text, calls, extra, message_extra, self.model)

    def _with_index(self, call: ToolCall) -> ToolCall:
        """Return the call with its index; its id and name only if they are new."""
        index = call.index if call.index != NO_INDEX else self._find_index(call)
        known = self.calls.get(index, ToolCall(index))
        self.calls[index] = replace(known, id=known.id or call.id, name=known.name or call.name)
        self.last_index = max(self.last_index, index)
        identity = None if known.id else call.id
        if identity is not None:
            self.indexes_by_id.setdefault(identity, index)
        return replace(call, index=index, id=identity, name=None if known.name else call.name)

    def _find_index(self, call: ToolCall) -> int:
        """Return the index of a part without one: that of its id, else the last, or a new one."""
        if call.id is not None:
            return self.indexes_by_id.get(call.id, self.last_index + 1)
        new = (
            call.name is not None and self.calls.get(self.last_index, ToolCall(0)).name is not None
        )
        return self.last_index + 1 if new or self.last_index < 0 else self.last_index

    def _update(self, chunk: DecodedChunk) -> None:
        self.finish_reason = chunk.finish_reason or self.finish_reason
        self.model = chunk.model if isinstance(chunk.model, str) and chunk.model else self.model
        self.fingerprint = chunk.fingerprint or self.fingerprint
        self.answer_filter = chunk.answer_filter or self.answer_filter
        self.prompt_filter = chunk.prompt_filter or self.prompt_filter
        self.usage = chunk.usage or self.usage
        self.has_ended = chunk.is_last or self.has_ended
        self.extra |= chunk.extra

    def done(self) -> Done:
        """Return the last event. Raises Unavailable if the response was cut."""
        if not (self.finish_reason or self.has_ended):
            cause = f"{self.model}: its stream ended without an end"
            raise Unavailable("The model's answer broke off. Ask again.", cause=cause)
        reason = self.finish_reason or "stop"
        if self.calls and reason == "stop":
            reason = self.format.tool_calls_reason or reason
        return Done(
            finish_reason=reason,
            usage=self.usage,
            model=self.model,
            fingerprint=self.fingerprint,
            answer_filter=self.answer_filter,
            prompt_filter=self.prompt_filter,
            extra=self.extra,
        )
