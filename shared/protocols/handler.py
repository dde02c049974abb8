"""Reads and answers the requests of all chat protocols, as a whole or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if
from shared.domain.events import Answer, ByteStream, Context, Delta, Event, Events, collect
from shared.domain.request import ChatRequest
from shared.http.body import Body
from shared.http.call import Json, Reply, cancel_on_disconnect, negotiate_media_type
from shared.memory.chat_history import AnswerStore
from shared.protocols.exchange import ErrorFormat, Exchange
from shared.rag.flow import StreamOptions, stream_answer
from shared.rag.prompt import COMPOSED, PromptBuilder


@dataclass(frozen=True, slots=True)
class Stream:
    """The chunks of an answer. A failure before the first one is an exception."""

    chunks: ByteStream
    write_last: Callable[[Json], bytes]  # writes an error after the first chunk as the last one


async def encode_events(events: Events, encode: Callable[[Context, Event], bytes]) -> ByteStream:
    """Encode each event; what arrived together is one chunk of bytes.

    `encode` takes the stream's context and an event, and returns one or more lines, or none.
    """
    context, lines = Context((), (), ""), b""
    async with aclosing(events):
        try:
            async for event in events:
                if isinstance(event, Context):
                    context = event
                lines += encode(context, event)
                if lines and not (isinstance(event, Delta) and event.more):
                    yield lines
                    lines = b""
        except Exception:
            if lines:
                yield lines
            raise


LARGE = 256 * 1024  # bytes
USAGE = (
    "POST {} with Content-Type: application/json and a body such as "
    '{{"messages": [{{"role": "user", "content": "..."}}]}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatProtocol(ErrorFormat):
    """A chat protocol: how its requests are parsed, its answers and streams written.

    `parse` raises BadRequest that names the field at fault.
    """

    media_type: str
    parse: Callable[[Body], ChatRequest]
    write_stream: Callable[[ChatRequest, Events], Stream]
    write_answer: Callable[[ChatRequest, Answer], Json] | None = None  # None: always as a stream
    prompt_builder: PromptBuilder = COMPOSED


def streams(exchange: Exchange) -> bool:
    """Return whether the answer to a request is a stream, by its route or the body's `stream`."""
    return exchange.call.route.endswith("/stream") or bool(exchange.body.get("stream"))


async def read_request(exchange: Exchange, protocol: ChatProtocol, body: Body) -> ChatRequest:
    """Return the request with its user, the security filters, an id and a time.

    Raises BadRequest, Unauthorized.
    """
    exchange.identify(protocol, body.json)
    parsed = await run_in_thread_if(body.size > LARGE, partial(protocol.parse, body))
    access = exchange.app.access
    user = access.get_user(exchange.call.headers)
    return replace(
        parsed,
        overrides=access.apply_filters(user, parsed.overrides),
        metadata=exchange.metadata(user),
    )


async def respond(
    exchange: Exchange,
    protocol: ChatProtocol,
    request: ChatRequest,
    transforms: Sequence[Callable[[Events], Events]] = (),
    history: AnswerStore | None = None,
) -> Reply:
    """Answer a request, whole or as a stream."""
    deadline, call = exchange.deadline, exchange.call
    storage_begins = deadline - exchange.app.limits.storage_seconds
    model_deadline = storage_begins if history else deadline
    options = StreamOptions(
        request,
        exchange.record,
        deadline,
        model_deadline,
        history=history,
        transforms=transforms,
        prompt_builder=protocol.prompt_builder,
    )
    events = stream_answer(exchange.rag, options)
    if protocol.write_answer and not streams(exchange):
        whole = await cancel_on_disconnect(collect(events), call.is_disconnected)
        return exchange.json_reply(protocol.write_answer(request, whole))
    stream = protocol.write_stream(request, events)
    kind = negotiate_media_type(call.headers.get("accept", ""), protocol.media_type)
    return Reply(200, kind, b"", exchange.headers, stream.chunks, deadline, stream.write_last)
