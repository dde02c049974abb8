"""Decodes the response of a model's server from chunks of bytes, without I/O.

The SDK's own decoder would take more CPU time than the rest of the app for a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import from_json

from shared.domain.errors import ChatError, Unavailable
from shared.domain.events import Delta, Done, Usage
from shared.domain.messages import ToolCall
from shared.models.base import AnswerLength
from shared.models.formats.base import NO_INDEX, Decode, DecodedChunk, ModelFormat

DONE_MARKER = b"[DONE]"
MAX_BYTES = 4 * 1024 * 1024  # of a line or a body
EXCEEDED = f"The model's answer, or a line of it, is longer than the limit of {MAX_BYTES:,} bytes."


class BodyReader:
    """Reads a body that is one object."""

    def __init__(self) -> None:
        self._buffer = bytearray()  # bytes would be copied with each chunk

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk; return the objects that are complete. Raises Unavailable."""
        self._buffer += chunk
        if len(self._buffer) > MAX_BYTES:
            raise Unavailable(f"{EXCEEDED} Ask for a shorter one.", cause=EXCEEDED)
        return []

    def end(self) -> list[bytes]:
        """Return the objects at the end of the body."""
        return [bytes(self._buffer)]


class LineReader(BodyReader):
    """Reads lines of JSON.

    They end at "\\n" only: the SDK's line reader also splits at U+2028, which JSON strings may
    contain.
    """

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk; return the objects that are complete. Raises Unavailable."""
        *lines, rest = chunk.split(b"\n")
        if lines and self._buffer:
            lines[0] = bytes(self._buffer + lines[0])
            self._buffer.clear()
        super().feed(rest)
        return self._objects(lines)

    def end(self) -> list[bytes]:
        """Return the object of a last line without an end."""
        return self._objects(super().end())

    def _objects(self, lines: list[bytes]) -> list[bytes]:
        return [text for line in lines if (text := line.strip())]


class EventReader(LineReader):
    """Reads the data of server-sent events."""

    def _objects(self, lines: list[bytes]) -> list[bytes]:
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]


READERS: Mapping[str, type[BodyReader]] = {"sse": EventReader, "ndjson": LineReader}


@dataclass(slots=True)
class StreamDecoder:
    """Decodes the objects of one response, and collects what they report beside its text."""

    format: ModelFormat
    model: str  # the requested name until the server reports its own
    finish_reason: str | None = None
    usage: Usage | None = None
    fingerprint: str | None = None
    answer_filter: Mapping[str, Any] | None = None
    prompt_filter: list[Any] | None = None
    has_ended: bool = False
    calls: dict[int, ToolCall] = field(default_factory=dict)
    indexes_by_id: dict[str, int] = field(default_factory=dict)  # of tool calls
    last_index: int = -1  # the highest one
    has_content: bool = False
    # The fields of chunks without content, and their length.
    extra: dict[str, Any] = field(default_factory=dict)
    message_extra: dict[str, Any] = field(default_factory=dict)
    pending: AnswerLength = field(default_factory=AnswerLength)
    decode: Decode = field(init=False)

    def __post_init__(self) -> None:
        self.decode = self.format.make_decode()

    def decode_all(self, objects: Sequence[bytes]) -> Iterator[Delta]:
        """Decode objects that arrived together, up to the end of the answer.

        Raises the error in an object, Unavailable, after the Deltas before it.
        """
        deltas: list[Delta] = []
        failure: ChatError | None = None
        try:
            for each in objects:
                if not self.has_ended and (delta := self._decode(each)):
                    deltas.append(delta)
        except ChatError as error:
            failure = error
        if deltas:
            deltas[-1] = replace(deltas[-1], more=False)
        yield from deltas
        if failure is not None:
            raise failure

    def _decode(self, line: bytes) -> Delta | None:
        """Decode one object to a Delta, if it has content. Raises the error in it, Unavailable."""
        if line == DONE_MARKER:
            self.has_ended = self.format.has_end_marker
            return None
        try:
            chunk = self.decode(from_json(line, allow_inf_nan=False))
            # What a server has sent in another type than the rest expects.
            if not isinstance(chunk.text, str) or not all(map(_has_types, chunk.calls)):
                raise TypeError
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise Unavailable(cause="a chunk of the model's stream cannot be read") from error
        return self._delta(chunk)

    def _delta(self, chunk: DecodedChunk) -> Delta | None:
        self._update(chunk)
        calls = tuple(map(self._with_index, chunk.calls))
        has_extra = any(value not in ("", [], {}) for value in chunk.message_extra.values())
        self.message_extra |= chunk.message_extra
        if not (chunk.text or calls or has_extra):
            self.pending.replace({**chunk.extra, **chunk.message_extra})
            return None
        self.has_content = True
        if self.pending.total:
            self.pending = AnswerLength()
        extra, self.extra = self.extra, {}
        message_extra, self.message_extra = self.message_extra, {}
        return Delta(chunk.text, calls, extra, message_extra, self.model, more=True)

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


def _has_types(call: ToolCall) -> bool:
    return isinstance(call.index, int) and isinstance(call.id, str | None)
