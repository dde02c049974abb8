"""AOG v0.2: the chat service's answers and streams, the metadata, the codes of its errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from shared.chat.content_parts import tool_call_json
from shared.chat.errors import (
    BadRequest,
    ChatError,
    MethodNotAllowed,
    NoProvider,
    NoSuchModel,
    NoSuchProvider,
    NotFound,
    UnsupportedMediaType,
)
from shared.chat.events import Answer, Context, Delta, Done, Event, Events, Extra, collect
from shared.chat.request import ChatRequest
from shared.http.call import ByteStream
from shared.http.json_encoding import Json, server_sent_event
from shared.protocols import context_json, tool_calls
from shared.protocols.aog import request
from shared.protocols.aog.request import BadPolicy
from shared.protocols.chat import ChatProtocol, streams_by_body
from shared.protocols.streams import LateError, end_with_error, pace
from shared.rag.passthrough_prompt import PASSTHROUGH

NAME = "chat"  # the one service
PAUSE = 0.002  # seconds: its clients take what comes at once for one event
REASONS = ("stop", "length", "tool_calls", "function_call", "content_filter")
OURS = ("business_code", "finish_reason")
FAILED = 502  # what a provider's failure is to the caller


class NoSuchService(NotFound):
    """A service that is not there."""


# What AOG calls our failures; the first that fits. What has none is called by its status.
CODES: Sequence[tuple[type[ChatError], int]] = (
    (NoSuchService, 10011),
    (BadPolicy, 10016),
    (NoSuchModel, 30003),
    (NoProvider, 40001),
    (NoSuchProvider, 40010),
    (BadRequest, 40003),
    (UnsupportedMediaType, 40004),
    (MethodNotAllowed, 40005),
)
PROVIDER_FAILED = 40017


def _refused(failure: ChatError) -> bool:
    """Whether a provider did not take the request: its 400 is about that."""
    return failure.from_model and failure.upstream_status == 400


def _failed(failure: ChatError) -> bool:
    """Whether it is the provider that failed."""
    if failure.upstream_status is None and isinstance(failure, BadRequest):
        return False
    return failure.from_model and not _refused(failure)


def status(failure: ChatError, _body: Any = None) -> int:
    """The HTTP status of a failure."""
    if _refused(failure):
        return 400
    return FAILED if _failed(failure) else failure.status


def _code(failure: ChatError) -> int:
    if _refused(failure):
        return 40003
    if _failed(failure):
        return PROVIDER_FAILED
    found = (code for kind, code in CODES if isinstance(failure, kind))
    return next(found, failure.status)


def error(failure: ChatError, _body: Any = None) -> Json:
    """A failure: `business_code` and a sentence."""
    field = f"{failure.field}: " if failure.field else ""
    refused = status(failure) == 400 and not isinstance(failure, BadRequest)
    said = "The provider did not accept the request." if refused else failure.message
    return {"business_code": _code(failure), "message": f"{field}{said}"}


def answer(asked: ChatRequest, given: Answer) -> Json:
    """A whole answer. What the provider adds stands beside it, and never in its place."""
    message: Json = {**given.message_extra, "role": "assistant", "content": given.content}
    if given.tool_calls:
        message["tool_calls"] = [tool_call_json(call) for call in given.tool_calls]
    frame = _frame(asked, given.done.model, message, finished=True)
    extra = _added(asked, given.extra)
    return {**extra, **frame, **_reason(given.done), **_context(asked, given.context)}


def chunk(asked: ChatRequest, context: Context, event: Event) -> Json:
    """One event of a stream. The sources go out with the first, which is the model's first."""
    message: Json = {"role": "assistant", "content": ""}
    match event:
        case Context():
            return _frame(asked, event.model, message) | _context(asked, event)
        case Delta(content, calls):
            message = {**event.message_extra, **message, "content": content}
            if calls:
                message["tool_calls"] = [tool_calls.part(call) for call in calls]
            extra, model = _added(asked, event.extra), event.model or context.model
            return {**extra, **_frame(asked, model, message)}
        case Done():
            frame = _frame(asked, event.model or context.model, message, finished=True)
            return {**_added(asked, event.extra), **frame, **_reason(event)}


async def encode(asked: ChatRequest, events: Events) -> ByteStream:
    """Each event of a stream. What is known before the answer goes out with its first piece, and
    an answer that comes in one piece is one event."""
    context, first = Context((), (), ""), Json()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Context):
                context, first = event, chunk(asked, event, event)
                if event.single_chunk:
                    whole = await collect(_prepend(event, events))
                    yield server_sent_event(answer(asked, whole))
                    return
            else:
                yield server_sent_event({**first, **chunk(asked, context, event)})
                first = {}


async def _prepend(context: Context, events: Events) -> Events:
    async with aclosing(events):
        yield context
        async for event in events:
            yield event


def stream(asked: ChatRequest, events: Events, error: LateError) -> ByteStream:
    """A stream as server-sent events with a pause between them, an error too."""

    def last(failure: Exception) -> bytes:
        return server_sent_event({**error(failure), "finished": True})

    return pace(end_with_error(encode(asked, events), last), PAUSE)


def _frame(asked: ChatRequest, model: str | None, message: Json, finished: bool = False) -> Json:
    created = datetime.fromtimestamp(asked.metadata.created, UTC).isoformat().replace("+00:00", "Z")
    return {
        "id": asked.metadata.id,
        "model": model,
        "created_at": created,
        "message": message,
        "finished": finished,
    }


def _added(asked: ChatRequest, extra: Extra) -> Json:
    """What the provider adds, but for what would be taken for ours."""
    ours = (*OURS, "context") if asked.search else OURS
    return {key: value for key, value in extra.items() if key not in ours}


def _reason(done: Done) -> Json:
    """One of the document's reasons: a server may have others."""
    return {"finish_reason": done.finish_reason if done.finish_reason in REASONS else "stop"}


def _context(asked: ChatRequest, context: Context) -> Json:
    return {"context": context_json.start_of_context(context)} if asked.search else {}


def services(policy: str, local: str, remote: str) -> Json:
    """The one service, and who is behind it."""
    told = {
        "service_name": NAME,
        "hybrid_policy": policy,
        "local_service_providers": local,
        "remote_service_providers": remote,
    }
    return {"business_code": 10000, "message": "The services.", "data": [told]}


def service_providers(cards: Iterable[Mapping[str, Any]]) -> Json:
    """The providers, without their keys."""
    data = [dict(card) for card in cards]
    return {"business_code": 20000, "message": "The service providers.", "data": data}


def missing_service(name: str) -> NoSuchService:
    """What is said of another service."""
    said = re.sub(r"[^\w.-]", "?", name)[:60]
    return NoSuchService(f"There is no service {said}: the one here is {NAME}.")


CHAT = ChatProtocol(
    name="aog",
    media_type="text/event-stream",
    parse=request.parse,
    streams=streams_by_body,
    answer=answer,
    stream=stream,
    prompt_builder=PASSTHROUGH,
    error=error,
    status=status,
)
