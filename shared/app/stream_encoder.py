"""The events of an answer as the lines of a stream, in the words of a dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from shared.chat.events import Answer, Context, Delta, Done, Event, Events, collect
from shared.chat.request import ChatRequest
from shared.http.json_encoding import Json
from shared.protocols.dialect import Dialect

Lines = AsyncGenerator[bytes, None]


@dataclass(slots=True)
class StreamEncoder:
    """A stream being written: what is known of it by now."""

    dialect: Dialect
    asked: ChatRequest
    context: Context = field(default_factory=lambda: Context((), (), ""))
    first: Json = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)

    def lines(self, event: Event) -> Iterator[bytes]:
        """What one event adds."""
        if isinstance(event, Context):
            self.context = event
        chunk = self.dialect.chunk(self.asked, self.context, event)
        if isinstance(event, Context) and self.dialect.late:
            self.first = chunk or {}
        elif chunk is not None:
            yield self.dialect.frame({**self.first, **chunk})
            self.first = {}
        if self.dialect.trailer is None:
            return
        if isinstance(event, Delta):
            self.parts.append(event.content)
        if isinstance(event, Done):
            whole = Answer(self.context, "".join(self.parts), event)
            yield from self.dialect.trailer(self.asked, whole)


async def framed(dialect: Dialect, asked: ChatRequest, events: Events) -> Lines:
    """The lines of a stream: one for each event that the dialect has words for."""
    writing = StreamEncoder(dialect, asked)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Context) and event.single_chunk and dialect.late:
                whole = await collect(behind(event, events))
                yield dialect.frame(dialect.answer(asked, whole))
                return
            for line in writing.lines(event):
                yield line


async def behind(context: Context, events: Events) -> Events:
    """The same events, with their context before them."""
    async with aclosing(events):
        yield context
        async for event in events:
            yield event


async def paced(lines: Lines, pause: float) -> Lines:
    """The same lines, with so many seconds at least between two of them."""
    ready, now = 0.0, asyncio.get_running_loop().time
    async with aclosing(lines):
        async for line in lines:
            if (wait := ready - now()) > 0:
                await asyncio.sleep(wait)
            yield line
            ready = now() + pause  # from when the line has been sent
