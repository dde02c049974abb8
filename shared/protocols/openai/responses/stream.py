"""The stream of a response: typed events with sequence numbers, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from shared.domain.errors import Unavailable
from shared.domain.events import Context, Delta, Done, Event, Events
from shared.domain.messages import ToolCall
from shared.domain.request import ChatRequest
from shared.http.call import Json, server_sent_event
from shared.protocols.handler import Stream, encode_events
from shared.protocols.openai.responses import response as responses
from shared.protocols.openai.responses.request import ResponseState
from shared.rag.citations import CitationFinder, sources_by_name

CONTENT_FILTER = "content_filter"
STREAM_CODES = ("rate_limit_exceeded", "server_error")  # the errors that a stream may end with


@dataclass(slots=True)
class ResponseWriter:
    """Writes the events of one response. One item is open at most: a message or a call."""

    request: ChatRequest
    context: Context
    number: int = 0  # of the next event
    output: list[Json] = field(default_factory=list)  # the items that are done
    leading: list[str] = field(default_factory=list)  # blank text before a message
    texts: list[str] = field(default_factory=list)  # of the open message
    citations: CitationFinder | None = None  # of the open message
    messages: int = 0  # that have begun: a second one is text behind a call
    annotations: list[Json] = field(default_factory=list)  # of the open message
    call: ToolCall | None = None  # that is open
    arguments: list[str] = field(default_factory=list)  # of the open call, in pieces
    calls: int = 0  # that are done
    last_index: int = -1  # the model's index of the last call that is done
    status: str = "completed"  # of an item that ends

    @property
    def state(self) -> ResponseState:
        state: ResponseState = self.request.state
        return state

    @property
    def message_id(self) -> str:
        """The id of the message that has begun last."""
        return responses.message_id(self.state.id, self.messages)

    def start_events(self) -> Iterator[bytes]:
        """Yield the events before the answer."""
        response = responses.envelope(self.request, self.context, "in_progress")
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)
        if self.state.searches:
            yield from self._search()

    def _search(self) -> Iterator[bytes]:
        item = responses.search_item(self.request, self.context)
        begun = {**item, "status": "in_progress", "queries": [], "results": None}
        yield self._item("response.output_item.added", begun)
        for step in ("in_progress", "searching", "completed"):
            yield self._part(f"response.file_search_call.{step}", item["id"])
        yield self._close(item)

    def write(self, delta: Delta) -> Iterator[bytes]:
        """Yield the events of a piece of the answer."""
        if delta.content:
            yield from self._write_text(delta.content)
        for call in delta.tool_calls:
            yield from self._write_call(call)

    def _write_text(self, piece: str) -> Iterator[bytes]:
        if self.citations is not None:
            yield from self._write_piece(piece)
            return
        self.leading.append(piece)
        if not piece.strip():
            return  # some servers put line feeds around a call
        if self.call is not None:
            yield from self._end_call(self.call)
        yield from self._begin_text()

    def _write_piece(self, piece: str) -> Iterator[bytes]:
        self.texts.append(piece)
        yield self._text_event("response.output_text.delta", delta=piece, logprobs=[])
        for citation in self.citations.feed(piece) if self.citations else ():
            value = responses.format_annotation(self.request, citation)
            name, index = "response.output_text.annotation.added", len(self.annotations)
            self.annotations.append(value)
            yield self._text_event(name, annotation_index=index, annotation=value)

    def _begin_text(self) -> Iterator[bytes]:
        self.citations = CitationFinder(sources_by_name(self.context.sources))
        self.texts, self.annotations = [], []
        self.messages += 1
        item = responses.message_item(self.message_id, "", ())
        begun = {**item, "status": "in_progress", "content": []}
        yield self._item("response.output_item.added", begun)
        part = responses.text_part("", ())
        yield self._text_event("response.content_part.added", part=part)
        if piece := "".join(self.leading):
            yield from self._write_piece(piece)
        self.leading = []

    def _end_text(self) -> Iterator[bytes]:
        text = "".join(self.texts)
        part = responses.text_part(text, self.annotations)
        yield self._text_event("response.output_text.done", text=text, logprobs=[])
        yield self._text_event("response.content_part.done", part=part)
        yield self._close(responses.message_item(self.message_id, text, self.annotations))
        self.citations = None

    def _write_call(self, part: ToolCall) -> Iterator[bytes]:
        is_open = self.call is not None and self.call.index == part.index
        if part.index <= self.last_index and not is_open:  # before any event is written
            raise Unavailable("The model's answer is not in order. Ask again.")
        if self.citations is not None:
            yield from self._end_text()
        if self.call is not None and not is_open:
            yield from self._end_call(self.call)
        if self.call is None:
            yield from self._begin_call(part)
        elif part.arguments:
            self.arguments.append(part.arguments)
            yield self._call_event("response.function_call_arguments.delta", delta=part.arguments)

    def _begin_call(self, part: ToolCall) -> Iterator[bytes]:
        self.call, self.arguments, self.leading = part, [part.arguments], []
        item = responses.call_item(self.state.id, self.calls, replace(part, arguments=""))
        yield self._item("response.output_item.added", {**item, "status": "in_progress"})
        if part.arguments:
            yield self._call_event("response.function_call_arguments.delta", delta=part.arguments)

    def _end_call(self, call: ToolCall) -> Iterator[bytes]:
        call = replace(call, arguments="".join(self.arguments))
        item = responses.call_item(self.state.id, self.calls, call)
        name, arguments = item["name"], item["arguments"]
        event = "response.function_call_arguments.done"
        yield self._call_event(event, name=name, arguments=arguments)
        yield self._close(item)
        self.call, self.calls, self.last_index = None, self.calls + 1, call.index

    def end(self, done: Done) -> Iterator[bytes]:
        """Yield the events at the end of the answer."""
        self.status = responses.end_status(done)
        if self.call is not None:
            yield from self._end_call(self.call)
        if self.citations is None and not self.calls:
            yield from self._begin_text()  # an answer without text
        if self.citations is not None:
            yield from self._end_text()
        response = responses.finished(self.request, self.context, done, self.output)
        yield self._event(f"response.{response['status']}", response=response)

    def fail(self, error: Json) -> bytes:
        """Return the event of a failure. Items that are open stay open."""
        if error["code"] == CONTENT_FILTER:
            done = Done(CONTENT_FILTER)
            response = responses.finished(self.request, self.context, done, self.output)
            return self._event("response.incomplete", response=response)
        code = error["code"] if error["code"] in STREAM_CODES else "server_error"
        response = responses.envelope(self.request, self.context, "failed")
        response |= {"output": self.output, "error": {"code": code, "message": error["message"]}}
        return self._event("response.failed", response=response)

    def _close(self, item: Json) -> bytes:
        item = {**item, "status": self.status}
        event = self._item("response.output_item.done", item)
        self.output.append(item)
        return event

    def _item(self, kind: str, item: Json) -> bytes:
        return self._event(kind, output_index=len(self.output), item=item)

    def _part(self, kind: str, item_id: str, **fields: object) -> bytes:
        return self._event(kind, item_id=item_id, output_index=len(self.output), **fields)

    def _text_event(self, kind: str, **fields: object) -> bytes:
        return self._part(kind, self.message_id, content_index=0, **fields)

    def _call_event(self, kind: str, **fields: object) -> bytes:
        return self._part(kind, f"fc_{self.state.id}_{self.calls}", **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        value = {"type": kind, "sequence_number": self.number, **fields}
        self.number += 1
        return b"event: " + kind.encode() + b"\n" + server_sent_event(value)


def write_stream(request: ChatRequest, events: Events) -> Stream:
    """Encode a stream; a failure is its last event."""
    writer: ResponseWriter | None = None

    def encode(context: Context, event: Event) -> bytes:
        nonlocal writer
        writer = writer or ResponseWriter(request, context)
        match event:
            case Context():
                return b"".join(writer.start_events())
            case Delta():
                return b"".join(writer.write(event))
            case Done():
                return b"".join(writer.end(event))

    def fail(error: Json) -> bytes:
        return writer.fail(error["error"]) if writer else b""

    return Stream(encode_events(events, encode), fail)
