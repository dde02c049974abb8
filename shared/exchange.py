"""One request and what comes of it: how answer, stream and failure are written and logged."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from shared.chat import Answer, ChatRequest, Context, Events
from shared.dialects.wire import Dialect, Json, dumps
from shared.errors import ChatError
from shared.http import Bytes, Call, Reply
from shared.logs import Record

JSON = "application/json"
FRESH = {"Cache-Control": "no-store"}


@dataclass(slots=True)
class Exchange:
    """What is known of a request by now: it decides how whatever comes of it is written."""

    call: Call
    record: Record
    dialect: Dialect
    body: Any = None

    def whole(self, asked: ChatRequest, answer: Answer) -> Reply:
        """A whole answer."""
        return Reply(200, JSON, dumps(self.dialect.answer(asked, answer)), FRESH)

    def failed(self, failure: ChatError) -> Reply:
        """A failure with its status."""
        self.record.caused(failure)
        body = dumps(self.dialect.error(failure, self.body))
        return Reply(failure.status, JSON, body, dict(failure.headers))

    async def watched(self, events: Events) -> Events:
        """The same events, taken down for the log."""
        async with aclosing(events):
            async for event in events:
                self.record.saw(event)
                yield event

    async def lines(self, asked: ChatRequest, events: Events) -> Bytes:
        """A stream's lines, one event each. Until the first is out, a failure is an exception."""
        begun = False
        self.record.outcome = "client gone"  # until the end is reached
        try:
            async with aclosing(self._framed(asked, events)) as framed:
                async for line in framed:
                    begun = True
                    yield line
            self.record.outcome = "ok"
        except Exception as failure:
            if not begun:
                raise
            yield self.dialect.frame(self._last_words(failure))
        finally:
            if begun:
                self.record.write()

    async def _framed(self, asked: ChatRequest, events: Events) -> AsyncGenerator[bytes, None]:
        context = Context((), (), "")
        async with aclosing(events):
            async for event in events:
                context = event if isinstance(event, Context) else context
                yield self.dialect.frame(self.dialect.chunk(asked, context, event))

    def _last_words(self, failure: Exception) -> Json:
        if not isinstance(failure, ChatError):
            self.record.broke(failure)
            failure = ChatError()
        self.record.caused(failure)
        return self.dialect.error(failure, self.body)
