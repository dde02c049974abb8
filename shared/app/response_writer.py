"""One request and what comes of it: how answer, stream and failure are written and logged."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from shared.app.stream_encoder import framed, paced
from shared.chat.errors import ChatError
from shared.chat.events import Answer, Context, Events
from shared.chat.request import ChatRequest
from shared.http.call import ByteStream, Call, Reply
from shared.http.json_encoding import dumps
from shared.protocols.dialect import Dialect, ErrorFormat
from shared.telemetry.access_log import AccessLog
from shared.telemetry.spans import Span, Tracer

JSON = "application/json"
NOTICE, LONGEST_NOTICE = "x-chat-notice", 1000
FRESH = {"Cache-Control": "no-store"}


@dataclass(slots=True)
class ResponseWriter:
    """What is known of a request by now: it decides how whatever comes of it is written."""

    call: Call
    record: AccessLog
    error_format: ErrorFormat
    body: Any = None
    notes: tuple[str, ...] = ()

    def traced(self, tracer: Tracer) -> Span:
        """The span of this request, which ends with its line in the log."""
        call = self.call
        self.record.span = tracer.start_request(f"{call.method} {call.route}", call.headers)
        return self.record.span

    def speaks(self, dialect: Dialect, body: Any) -> None:
        """Its protocol is known now, from the body."""
        self.error_format, self.body, self.record.dialect = dialect, body, dialect.name

    def failed(self, failure: ChatError) -> Reply:
        """A failure with its status."""
        self.record.record_failure(failure)
        body = dumps(self.error_format.error(failure, self.body))
        status = self.error_format.status(failure, self.body)
        return Reply(status, JSON, body, dict(self.error_format.headers(failure)))

    def lines(self, dialect: Dialect, asked: ChatRequest, events: Events) -> ByteStream:
        """A stream's lines, one event each, the last of which may tell of a failure.

        Until the first is out, a failure is an exception.
        """

        def last_words(failure: ChatError) -> bytes:
            return dialect.frame((dialect.broken or dialect.error)(failure, self.body))

        noting = self._noting(events) if dialect.notices else events
        lines = self._taken_down(framed(dialect, asked, noting), last_words)
        return paced(lines, dialect.pause) if dialect.pause else lines

    async def _noting(self, events: Events) -> Events:
        """The same events; what the context notes is known before the first line is sent."""
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Context):
                    self.notes = event.notes
                yield event

    async def begun(self, reply: Reply) -> Reply:
        """A reply whose stream has begun; a failure until then is an exception."""
        if reply.rest is None:
            return reply
        pieces = self._taken_down(reply.rest)
        return replace(reply, body=await anext(pieces), rest=pieces)

    async def _taken_down(
        self, pieces: ByteStream, last_words: Callable[[ChatError], bytes] | None = None
    ) -> ByteStream:
        """The same bytes, taken down for the log.

        Once they have begun, a failure becomes the `last_words`, or else ends them short, as a
        ChatError.
        """
        begun = False
        self.record.outcome = "client gone"  # until the end is reached
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    begun = True
                    yield piece
            self.record.outcome = "ok"
        except Exception as failure:
            if not begun:
                raise
            seen = self._seen(failure)
            if last_words is None:
                raise seen from None
            yield last_words(seen)
        finally:
            if begun:
                self.record.write()

    def _seen(self, failure: Exception) -> ChatError:
        """What the caller may know of a failure that came late; the log has the rest."""
        if not isinstance(failure, ChatError):
            self.record.log_exception(failure)
            failure = ChatError()
        self.record.record_failure(failure)
        return failure


def whole(dialect: Dialect, asked: ChatRequest, answer: Answer) -> Reply:
    """A whole answer."""
    headers = noticed(dialect, answer.context.notes)
    return Reply(200, JSON, dumps(dialect.answer(asked, answer)), headers)


def noticed(dialect: Dialect, notes: Sequence[str]) -> Mapping[str, str]:
    """The headers of an answer; one of them says what was used instead of what was asked for."""
    if not (notes and dialect.notices):
        return FRESH
    told = " ".join(notes).encode("ascii", "replace").decode()
    return {**FRESH, NOTICE: re.sub(r"[^ -~]", " ", told)[:LONGEST_NOTICE]}
