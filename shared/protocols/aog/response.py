"""Formats AOG v0.2's answers, streams and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from shared.domain import errors
from shared.domain.errors import BadRequest, ChatError
from shared.domain.events import Answer, ByteStream, Context, Delta, Done, Event, Events, collect
from shared.domain.messages import tool_call_json
from shared.domain.request import ChatRequest
from shared.http.call import EVENTS, Json, server_sent_event
from shared.protocols import context_json
from shared.protocols.aog.request import BadPolicy, parse
from shared.protocols.handler import ChatProtocol, Stream
from shared.protocols.message_json import format_call_part
from shared.rag.passthrough import PASSTHROUGH

PAUSE = 0.002  # seconds: its clients take what comes at once for one event
REASONS = ("stop", "length", "tool_calls", "function_call", "content_filter")
RESERVED = ("business_code", "finish_reason")


class NoSuchService(errors.NotFound):
    """There is no such service."""


# AOG's codes for our errors, the first match. Without one the HTTP status is the code.
CODES: Sequence[tuple[type[ChatError], int]] = (
    (NoSuchService, 10011),
    (BadPolicy, 10016),
    (errors.NoSuchModel, 30003),
    (errors.NoProvider, 40001),
    (errors.NoSuchProvider, 40010),
    (BadRequest, 40003),
    (errors.UnsupportedMediaType, 40004),
    (errors.MethodNotAllowed, 40005),
)
REJECTED = (400, 40003)
PROVIDER_FAILURE = (502, 40017)


def _status_and_code(failure: ChatError) -> tuple[int, int]:
    """Return the HTTP status and AOG's code of a failure; a provider's 400 is about the request."""
    if failure.from_model and failure.upstream_status == 400:
        return REJECTED
    is_ours = failure.upstream_status is None and isinstance(failure, BadRequest)
    if failure.from_model and not is_ours:
        return PROVIDER_FAILURE
    codes = (code for error_class, code in CODES if isinstance(failure, error_class))
    return failure.status, next(codes, failure.status)


def status(failure: ChatError, _body: Any) -> int:
    """Return the HTTP status of a failure."""
    return _status_and_code(failure)[0]


def write_error(failure: ChatError, _body: Any) -> Json:
    """Format a failure: `business_code` and a sentence."""
    field = f"{failure.field}: " if failure.field else ""
    status, code = _status_and_code(failure)
    rejected = status == 400 and not isinstance(failure, BadRequest)
    message = "The provider did not accept the request." if rejected else failure.message
    return {"business_code": code, "message": f"{field}{message}"}


def write_answer(request: ChatRequest, result: Answer) -> Json:
    """Format a whole answer."""
    message: Json = {**result.message_extra, "role": "assistant", "content": result.content}
    if result.tool_calls:
        message["tool_calls"] = [tool_call_json(call) for call in result.tool_calls]
    model = result.done.model or result.context.model
    frame = _frame(request, model, message, result.extra, result.done)
    return frame | _context(request, result.context)


def write_chunk(request: ChatRequest, context: Context, event: Event) -> Json:
    """Format an event of a stream. The sources go out with the first, which is the model's
    first."""
    message: Json = {"role": "assistant", "content": ""}
    if isinstance(event, Context):
        return _frame(request, event.model, message, {}, None) | _context(request, event)
    if isinstance(event, Delta):
        message = {**event.message_extra, **message, "content": event.content}
        if event.tool_calls:
            message["tool_calls"] = [format_call_part(call) for call in event.tool_calls]
    done = event if isinstance(event, Done) else None
    return _frame(request, event.model or context.model, message, event.extra, done)


async def encode(request: ChatRequest, events: Events) -> ByteStream:
    """Encode each event of a stream. What is known before the answer goes out with its first
    piece, and an answer that comes in one piece is one event."""
    context, first = Context((), (), ""), Json()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Context):
                context, first = event, write_chunk(request, event, event)
                if event.single_chunk:
                    whole = replace(await collect(events), context=event)
                    yield server_sent_event(write_answer(request, whole))
                    return
            else:
                yield server_sent_event({**first, **write_chunk(request, context, event)})
                first = {}


def write_stream(request: ChatRequest, events: Events) -> Stream:
    """Encode a stream as server-sent events with a pause between them, an error too."""

    def write_last(error: Json) -> bytes:
        return server_sent_event({**error, "finished": True})

    return Stream(pace(encode(request, events), PAUSE), write_last)


async def pace(lines: ByteStream, seconds: float) -> ByteStream:
    """Pass lines through, with at least `seconds` between two of them, and before an error."""
    ready, now = 0.0, asyncio.get_running_loop().time

    async def wait() -> None:
        if (rest := ready - now()) > 0:
            await asyncio.sleep(rest)

    async with aclosing(lines):
        try:
            async for line in lines:
                await wait()
                yield line
                ready = now() + seconds  # from when the line has been sent
        except Exception:
            await wait()
            raise


def _frame(
    request: ChatRequest, model: str, message: Json, extra: Mapping[str, Any], done: Done | None
) -> Json:
    """Format an answer, or an event of a stream: the last one is `done`.

    The provider's own fields (`extra`) are added, and never replace ours.
    """
    reserved = RESERVED if request.grounding == "none" else (*RESERVED, "context")
    provider_fields = {key: value for key, value in extra.items() if key not in reserved}
    created = datetime.fromtimestamp(request.metadata.created, UTC)
    frame = provider_fields | {
        "id": request.metadata.id,
        "model": model,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "message": message,
        "finished": done is not None,
    }
    if done is not None:  # a server may have other reasons than the document
        frame["finish_reason"] = done.finish_reason if done.finish_reason in REASONS else "stop"
    return frame


def _context(request: ChatRequest, context: Context) -> Json:
    if request.grounding == "none":
        return {}
    return {"context": context_json.start_of_context(context)}


CHAT = ChatProtocol(
    name="aog",
    media_type=EVENTS,
    parse=parse,
    write_answer=write_answer,
    write_stream=write_stream,
    prompt_builder=PASSTHROUGH,
    write_error=write_error,
    status=status,
)
