"""Writes the UI message stream, version 1: the types of event that each version of the SDK knows.

An unknown type, or another `finishReason`, would end the stream in the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from shared.domain.errors import ChatError
from shared.domain.events import Context, Delta, Done, Event, Events, Source
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest
from shared.files.headers import MEDIA_TYPES
from shared.http.call import EVENTS, Json, server_sent_event
from shared.protocols import context_json
from shared.protocols.handler import ChatProtocol, Stream, encode_events
from shared.protocols.ui_message_stream.request import parse
from shared.rag.citations import sources_by_page

HEADERS = {"x-vercel-ai-ui-message-stream": "v1", "x-accel-buffering": "no"}
END = b"data: [DONE]\n\n"
FINISH_REASONS = ("stop", "length")  # of a model without tools; others are "other"
# The names that servers of models give to what a model thinks before it answers.
REASONING = ("reasoning_content", "reasoning", "thinking")
UNKNOWN = "text/plain"  # of a file whose name does not tell it


@dataclass(slots=True)
class MessageWriter:
    """Writes the events of one message. One part is open at most: its text, or its reasoning."""

    request: ChatRequest
    kind: str = ""  # of the open part
    parts: int = 0  # that have begun

    def write(self, context: Context, event: Event) -> Iterator[Json]:
        """Yield the events that one event of the answer becomes."""
        match event:
            case Context():
                yield from self._start(event)
            case Delta(content):
                if context.shows_steps:
                    yield from self._write_piece("reasoning", _reasoning(event))
                yield from self._write_piece("text", content)
            case Done():
                yield from self._finish(context, event)

    def _start(self, context: Context) -> Iterator[Json]:
        metadata, more = self.request.metadata, {"model": context.model}
        if context.conversation is not None:
            more[context_json.CONVERSATION] = context.conversation
        yield {"type": "start", "messageId": metadata.id, "messageMetadata": more}
        yield {"type": "start-step"}
        # One for each place: the client shows each source that it gets.
        for source in sources_by_page(context.sources).values():
            yield write_source(metadata.links, source)
        # Transient: the page would send it back with every later question.
        data = context_json.start_of_context(context)
        yield {"type": "data-context", "data": data, "transient": True}
        yield from map(_write_notice, context.notes)

    def _write_piece(self, kind: str, piece: str) -> Iterator[Json]:
        if not piece:
            return
        if kind != self.kind:
            yield from self._end_part()
            self.kind, self.parts = kind, self.parts + 1
            yield {"type": f"{kind}-start", "id": str(self.parts)}
        yield {"type": f"{kind}-delta", "id": str(self.parts), "delta": piece}

    def _end_part(self) -> Iterator[Json]:
        if self.kind:
            yield {"type": f"{self.kind}-end", "id": str(self.parts)}
        self.kind = ""

    def _finish(self, context: Context, done: Done) -> Iterator[Json]:
        yield from self._end_part()
        if done.followups is not None:
            yield {"type": "data-followups", "data": list(done.followups)}
        yield from map(_write_notice, done.warnings)
        yield {"type": "finish-step"}
        metadata: Json = {"model": done.model or context.model}
        if done.usage is not None:
            metadata["usage"] = {
                "inputTokens": done.usage.prompt_tokens,
                "outputTokens": done.usage.completion_tokens,
                "totalTokens": done.usage.total_tokens,
            }
        reason = done.finish_reason if done.finish_reason in FINISH_REASONS else "other"
        yield {"type": "finish", "finishReason": reason, "messageMetadata": metadata}


def write_source(links: str, source: Source) -> Json:
    """Return a passage as a link, or without one if it has no address."""
    name, url = source.sourcepage, context_json.source_url(links, source)
    if url:
        return {"type": "source-url", "sourceId": name, "url": url, "title": name}
    media_type = MEDIA_TYPES.get(PurePath(source.sourcefile).suffix.lower(), UNKNOWN)
    document = {"mediaType": media_type, "title": name, "filename": source.sourcefile}
    return {"type": "source-document", "sourceId": name, **document}


def _write_notice(sentence: str) -> Json:
    return {"type": "data-notice", "data": sentence}


def _reasoning(delta: Delta) -> str:
    values: Iterator[Any] = (delta.message_extra.get(name) for name in REASONING)
    return next((value for value in values if isinstance(value, str)), "")


def write_stream(request: ChatRequest, events: Events) -> Stream:
    """Encode a stream as server-sent events. An error, too, is followed by the end marker."""
    writer = MessageWriter(request)

    def encode(context: Context, event: Event) -> bytes:
        lines = b"".join(map(server_sent_event, writer.write(context, event)))
        return lines + END if isinstance(event, Done) else lines

    return Stream(encode_events(events, encode), lambda error: server_sent_event(error) + END)


def write_error(failure: ChatError, _body: Any = None) -> Json:
    """Return the event of an error, with the path of the field at fault."""
    text, field = failure.message, failure.field
    if field is not None:
        name = field.partition("[")[0]
        text = f"{'overrides.' if name in Overrides.model_fields else ''}{field}: {text}"
    return {"type": "error", "errorText": text}


def encode_error(error: Json) -> bytes:
    """Return the sentence of an error: pages show the whole body of a refusal."""
    return str(error["errorText"]).encode()


UI_MESSAGE_STREAM = ChatProtocol(
    name="ui-message-stream",
    media_type=EVENTS,
    parse=parse,
    write_stream=write_stream,
    write_error=write_error,
    encode_error=encode_error,
    error_media_type="text/plain",
)
