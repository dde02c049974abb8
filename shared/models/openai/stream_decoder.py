"""The answer of a model's server, from bytes cut anywhere.

The objects that an SDK builds of each chunk cost more than all the rest of a stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import from_json

from shared.chat.errors import Unavailable
from shared.chat.events import Delta, Done, Usage
from shared.chat.messages import ToolCall
from shared.models.formats.base import NO_INDEX, DecodedChunk, ModelFormat

DONE_MARKER = b"[DONE]"
MAX_BYTES = 4 * 1024 * 1024  # bytes; a server that ends no line is not one that answers

ByteStream = AsyncGenerator[bytes, None]


async def split_lines(chunks: AsyncIterator[bytes]) -> ByteStream:
    """The lines of a stream. Only "\\n" ends one: the SDK's own reader of lines also takes U+2028
    for an end, which may stand inside a JSON string. Raises Unavailable."""
    begun = bytearray()  # bytes would be copied with each chunk that ends no line
    async for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield bytes(begun + end)
            begun.clear()
        begun += rest
        if len(begun) > MAX_BYTES:
            raise Unavailable(cause="the model's stream has a line without an end")
    yield bytes(begun)


async def sse_data(chunks: AsyncIterator[bytes]) -> ByteStream:
    """The data of each event of a stream of server-sent ones."""
    async with aclosing(split_lines(chunks)) as each:
        async for line in each:
            if line.startswith(b"data:"):
                yield line[5:].strip()


async def json_lines(chunks: AsyncIterator[bytes]) -> ByteStream:
    """The lines of JSON."""
    async with aclosing(split_lines(chunks)) as each:
        async for line in each:
            if text := line.strip():
                yield text


async def read_body(chunks: AsyncIterator[bytes]) -> ByteStream:
    """All of a body at once. Raises Unavailable."""
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
    """What an answer has told by now, beside its text. `model` is the name that was asked for.

    `indexes_by_id` are the indexes of the calls by their ids, `last_index` is the highest index.
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
        """What one object adds, if anything. Raises the error in it, Unavailable if unread."""
        if line == DONE_MARKER:
            self.has_ended = True
            return None
        try:
            heard = self.format.decode(from_json(line, allow_inf_nan=False))
            return self._delta(heard)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise Unavailable(cause="a chunk of the model's stream cannot be read") from error

    def _delta(self, heard: DecodedChunk) -> Delta | None:
        self._update(heard)
        calls = tuple(self._with_index(call) for call in heard.calls)
        said = any(value not in ("", [], {}) for value in heard.message_extra.values())
        self.message_extra |= heard.message_extra
        if not (heard.text or calls or said):
            return None
        self.has_content = True
        extra, self.extra = self.extra, {}
        beside, self.message_extra = self.message_extra, {}
        return Delta("" + heard.text, calls, extra, beside, self.model)

    def _with_index(self, call: ToolCall) -> ToolCall:
        """The call with its index, its id and its name, of which each comes once."""
        index = call.index if call.index != NO_INDEX else self._find_index(call)
        begun = self.calls.get(index, ToolCall(index))
        self.calls[index] = replace(begun, id=begun.id or call.id, name=begun.name or call.name)
        self.last_index = max(self.last_index, index)
        identity = None if begun.id else call.id
        if identity is not None:
            self.indexes_by_id.setdefault(identity, index)
        return replace(call, index=index, id=identity, name=None if begun.name else call.name)

    def _find_index(self, call: ToolCall) -> int:
        """Where a call belongs whose server does not say: with the one of its id, else the last
        one; or it is another."""
        if call.id is not None:
            return self.indexes_by_id.get(call.id, self.last_index + 1)
        new = (
            call.name is not None and self.calls.get(self.last_index, ToolCall(0)).name is not None
        )
        return self.last_index + 1 if new or self.last_index < 0 else self.last_index

    def _update(self, heard: DecodedChunk) -> None:
        self.finish_reason = heard.finish_reason or self.finish_reason
        self.model = heard.model if isinstance(heard.model, str) and heard.model else self.model
        self.fingerprint = heard.fingerprint or self.fingerprint
        self.answer_filter = heard.answer_filter or self.answer_filter
        self.prompt_filter = heard.prompt_filter or self.prompt_filter
        self.usage = heard.usage or self.usage
        self.has_ended = heard.is_last or self.has_ended
        self.extra |= heard.extra

    def done(self) -> Done:
        """The last event. Raises Unavailable where the answer broke off without an end."""
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
