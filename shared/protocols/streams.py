"""Pieces that a protocol composes its streams of: events to lines, a last error, pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from shared.chat.events import Context, Event, Events
from shared.chat.request import ChatRequest
from shared.http.call import ByteStream
from shared.http.json_encoding import Json

Chunk = Callable[[ChatRequest, Context, Event], Json | None]
"""Writes one event of a stream, given the request and the stream's context; None for no line."""
Frame = Callable[[Json], bytes]
LateError = Callable[[Exception], Json]
"""Logs a failure and writes it."""
Stream = Callable[[ChatRequest, Events, LateError], ByteStream]
"""Writes events as bytes. A failure before the first line is an exception."""


def stream_of(chunk: Chunk, frame: Frame) -> Stream:
    """A stream of one line for each event that `chunk` writes, and one for an error."""

    def stream(request: ChatRequest, events: Events, error: LateError) -> ByteStream:
        lines = encode(chunk, frame, request, events)
        return end_with_error(lines, lambda failure: frame(error(failure)))

    return stream


async def encode(chunk: Chunk, frame: Frame, request: ChatRequest, events: Events) -> ByteStream:
    """One line for each event that `chunk` writes."""
    context = Context((), (), "")
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Context):
                context = event
            if (value := chunk(request, context, event)) is not None:
                yield frame(value)


async def end_with_error(lines: ByteStream, error: Callable[[Exception], bytes]) -> ByteStream:
    """The same lines; a failure behind the first becomes the last."""
    started = False
    try:
        async with aclosing(lines):
            async for line in lines:
                started = True
                yield line
    except Exception as failure:
        if not started:
            raise
        yield error(failure)


async def pace(lines: ByteStream, seconds: float) -> ByteStream:
    """The same lines, with so many seconds at least between two of them."""
    ready, now = 0.0, asyncio.get_running_loop().time
    async with aclosing(lines):
        async for line in lines:
            if (wait := ready - now()) > 0:
                await asyncio.sleep(wait)
            yield line
            ready = now() + seconds  # from when the line has been sent
