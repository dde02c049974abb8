"""AOG v0.2: the chat service's answers and streams, the metadata, the codes of its errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

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
from shared.chat.events import Answer, ByteStream, Context, Delta, Done, Event, Events, collect
from shared.chat.messages import tool_call_json
from shared.chat.request import ChatRequest
from shared.http.json_encoding import Json, server_sent_event
from shared.protocols import context_json, tool_calls
from shared.protocols.aog.request import BadPolicy, parse
from shared.protocols.chat import ChatProtocol, LateError, end_with_error, pace, streams_by_body
from shared.rag.prompt import PASSTHROUGH

NAME = "chat"  # the one service
PAUSE = 0.002  # seconds: its clients take what comes at once for one event
REASONS = ("stop", "length", "tool_calls", "function_call", "content_filter")
RESERVED = ("business_code", "finish_reason")
BAD_GATEWAY = 502  # for a provider's failure


class NoSuchService(NotFound):
    """There is no such service."""


# AOG's codes for our errors, the first match. Without one the HTTP status is the code.
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
PROVIDER_FAILURE = 40017


def _is_rejected(failure: ChatError) -> bool:
    """Whether a provider rejected the request: its 400 is about the request."""
    return failure.from_model and failure.upstream_status == 400


def _is_provider_failure(failure: ChatError) -> bool:
    """Whether the provider failed."""
    if failure.upstream_status is None and isinstance(failure, BadRequest):
        return False
    return failure.from_model and not _is_rejected(failure)


def status(failure: ChatError, _body: Any = None) -> int:
    """The HTTP status of a failure."""
    if _is_rejected(failure):
        return 400
    return BAD_GATEWAY if _is_provider_failure(failure) else failure.status


def _code(failure: ChatError) -> int:
    if _is_rejected(failure):
        return 40003
    if _is_provider_failure(failure):
        return PROVIDER_FAILURE
    codes = (code for kind, code in CODES if isinstance(failure, kind))
    return next(codes, failure.status)


def error(failure: ChatError, _body: Any = None) -> Json:
    """A failure: `business_code` and a sentence."""
    field = f"{failure.field}: " if failure.field else ""
    rejected = status(failure) == 400 and not isinstance(failure, BadRequest)
    message = "The provider did not accept the request." if rejected else failure.message
    return {"business_code": _code(failure), "message": f"{field}{message}"}


def answer(request: ChatRequest, result: Answer) -> Json:
    """A whole answer. Fields of the provider are added and never replace ours."""
    message: Json = {**result.message_extra, "role": "assistant", "content": result.content}
    if result.tool_calls:
        message["tool_calls"] = [tool_call_json(call) for call in result.tool_calls]
    model = result.done.model or result.context.model
    frame = _frame(request, model, message, finished=True)
    extra = _provider_fields(request, result.extra)
    return {**extra, **frame, **_reason(result.done), **_context(request, result.context)}


def chunk(request: ChatRequest, context: Context, event: Event) -> Json:
    """One event of a stream. The sources go out with the first, which is the model's first."""
    message: Json = {"role": "assistant", "content": ""}
    match event:
        case Context():
            return _frame(request, event.model, message) | _context(request, event)
        case Delta(content, calls):
            message = {**event.message_extra, **message, "content": content}
            if calls:
                message["tool_calls"] = [tool_calls.part(call) for call in calls]
            extra, model = _provider_fields(request, event.extra), event.model or context.model
            return {**extra, **_frame(request, model, message)}
        case Done():
            frame = _frame(request, event.model or context.model, message, finished=True)
            return {**_provider_fields(request, event.extra), **frame, **_reason(event)}


async def encode(request: ChatRequest, events: Events) -> ByteStream:
    """Each event of a stream. What is known before the answer goes out with its first piece, and
    an answer that comes in one piece is one event."""
    context, first = Context((), (), ""), Json()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Context):
                context, first = event, chunk(request, event, event)
                if event.single_chunk:
                    whole = replace(await collect(events), context=event)
                    yield server_sent_event(answer(request, whole))
                    return
            else:
                yield server_sent_event({**first, **chunk(request, context, event)})
                first = {}


def stream(request: ChatRequest, events: Events, error: LateError) -> ByteStream:
    """A stream as server-sent events with a pause between them, an error too."""

    def last(failure: Exception) -> bytes:
        return server_sent_event({**error(failure), "finished": True})

    return pace(end_with_error(encode(request, events), last), PAUSE)


def _frame(request: ChatRequest, model: str | None, message: Json, finished: bool = False) -> Json:
    created = (
        datetime.fromtimestamp(request.metadata.created, UTC).isoformat().replace("+00:00", "Z")
    )
    return {
        "id": request.metadata.id,
        "model": model,
        "created_at": created,
        "message": message,
        "finished": finished,
    }


def _provider_fields(request: ChatRequest, extra: Mapping[str, Any]) -> Json:
    """The provider's own fields, without those that have names of ours."""
    reserved = RESERVED if request.grounding == "none" else (*RESERVED, "context")
    return {key: value for key, value in extra.items() if key not in reserved}


def _reason(done: Done) -> Json:
    """One of the document's reasons: a server may have others."""
    return {"finish_reason": done.finish_reason if done.finish_reason in REASONS else "stop"}


def _context(request: ChatRequest, context: Context) -> Json:
    if request.grounding == "none":
        return {}
    return {"context": context_json.start_of_context(context)}


def services(policy: str, local: str, remote: str) -> Json:
    """The one service, and who is behind it."""
    service = {
        "service_name": NAME,
        "hybrid_policy": policy,
        "local_service_providers": local,
        "remote_service_providers": remote,
    }
    return {"business_code": 10000, "message": "The services.", "data": [service]}


def service_providers(cards: Iterable[Mapping[str, Any]]) -> Json:
    """The providers, without their keys."""
    data = [dict(card) for card in cards]
    return {"business_code": 20000, "message": "The service providers.", "data": data}


def missing_service(name: str) -> NoSuchService:
    """The error for another service."""
    printable = re.sub(r"[^\w.-]", "?", name)[:60]
    return NoSuchService(f"There is no service {printable}: the one here is {NAME}.")


CHAT = ChatProtocol(
    name="aog",
    media_type="text/event-stream",
    parse=parse,
    streams=streams_by_body,
    answer=answer,
    stream=stream,
    prompt_builder=PASSTHROUGH,
    error=error,
    status=status,
)
