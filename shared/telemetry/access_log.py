"""Logs one line for each request, and ends its span: route, protocol, status, times, outcome.

The log never holds keys or text of the conversation. The parents of spans are explicit, not context
variables: the first event of an answer is read in another task than the rest, which would not see
such a variable.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from shared.domain.errors import ChatError, Unsupported
from shared.domain.events import Context, Done, Events

log = logging.getLogger("chat")

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]


class Span(Protocol):
    """A unit of work. Its creator ends it, once."""

    def start_child(self, name: str) -> Span: ...

    def set_attributes(self, attributes: Attributes) -> None:
        """Set attributes: numbers and names, never text of the conversation."""
        ...

    def add_event(self, name: str) -> None: ...

    def end(self, error: str = "") -> None:
        """End the span; `error` is the name of the error if it failed."""
        ...


class Tracer(Protocol):
    """Starts the spans of requests."""

    def start_request(self, name: str, headers: Mapping[str, str]) -> Span:
        """Start the span of a request, as a child of the one in its `traceparent` header.

        `headers` have lower-case names.
        """
        ...


class NoopTracer:
    """A tracer and a span that do nothing, for use without an exporter."""

    def start_request(self, name: str, headers: Mapping[str, str]) -> Span:
        return self

    def start_child(self, name: str) -> Span:
        return self

    def set_attributes(self, attributes: Attributes) -> None:
        pass

    def add_event(self, name: str) -> None:
        pass

    def end(self, error: str = "") -> None:
        pass


NOOP_TRACER = NoopTracer()


@contextmanager
def child_span(parent: Span, name: str, attributes: Attributes) -> Iterator[Span]:
    """Start a span around a block, and end it however the block ends."""
    span = parent.start_child(name)
    span.set_attributes(attributes)
    try:
        yield span
    except (CancelledError, GeneratorExit):  # client gone or deadline: the parent says which
        span.set_attributes({"chat.outcome": "broken off"})
        span.end()
        raise
    except BaseException as failure:
        span.end(type(failure).__name__)
        raise
    span.end()


# Libraries that log every request at INFO, with URL and headers.
WARNINGS_ONLY = ("azure.monitor", "httpx2", "openai")
# Libraries that log a warning with a stack for errors that are handled here: a CLI that is not
# signed in, an error response without a body.
ERRORS_ONLY = ("azure.core", "azure.cosmos", "azure.identity", "azure.search", "azure.storage")


@dataclass(slots=True)
class AccessLog:
    """Collects the fields of a request's log line and span; `write` emits them."""

    id: str
    method: str
    route: str
    dialect: str = "-"  # the name of the protocol
    status: int = 0
    hits: int | None = None  # passages
    tokens: int | None = None  # of question and answer
    search_tokens: Mapping[str, int] = field(default_factory=dict)  # by their kind
    outcome: str = "ok"  # or the name of an error
    failed: bool = False  # by a fault of the app or of a service
    span: Span = NOOP_TRACER
    first_event_seconds: float | None = None
    start_time: float = field(default_factory=time.monotonic)

    def record_hits(self, hits: int) -> None:
        """Record how many passages there are, and that the answer begins."""
        self.hits, self.first_event_seconds = hits, time.monotonic() - self.start_time

    async def observe(self, events: Events) -> Events:
        """Pass events through and record them."""
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Context):
                    self.record_hits(len(event.sources))
                    self.search_tokens = event.search_tokens
                elif isinstance(event, Done) and event.usage is not None:
                    self.tokens = event.usage.total_tokens
                yield event

    def write(self) -> None:
        """Log `request id=... POST /chat ... outcome=ok` and end the span.

        Tokens of the search are in a line before it.

        Times are in seconds; unknown values are `-`. The level is WARNING for failures of the app
        or a service, so that alerts can filter by level.
        """
        if self.search_tokens:
            counts = " ".join(f"{kind}={number}" for kind, number in self.search_tokens.items())
            log.info("request id=%s search tokens: %s", self.id, counts)
        first = "-" if self.first_event_seconds is None else f"{self.first_event_seconds:.3f}"
        total = time.monotonic() - self.start_time
        hits = "-" if self.hits is None else self.hits
        tokens = "-" if self.tokens is None else self.tokens
        line = (
            f"request id={self.id} {self.method} {self.route} dialect={self.dialect} "
            f"status={self.status} first={first} total={total:.3f} hits={hits} tokens={tokens} "
            f"outcome={self.outcome}"
        )
        log.log(logging.WARNING if self.failed else logging.INFO, "%s", line)
        self.span.set_attributes(self._attributes())
        self.span.end(self.outcome if self.failed else "")

    def _attributes(self) -> Attributes:
        # Custom names: Azure Monitor drops attributes with OpenTelemetry's own names (`http...`).
        values: dict[str, AttributeValue | None] = {
            "chat.id": self.id,
            "chat.route": self.route,
            "chat.status": self.status,
            "chat.dialect": self.dialect,
            "chat.first_event_seconds": self.first_event_seconds,
            "chat.hits": self.hits,
            "chat.tokens": self.tokens,
            "chat.outcome": self.outcome,
        }
        return {name: value for name, value in values.items() if value is not None}

    def record_failure(self, failure: Exception) -> ChatError:
        """Record the outcome of a failed request, and log what is hidden from the caller.

        Returns the error that the caller may see.
        """
        if not isinstance(failure, ChatError):
            log.error("request id=%s failed: %s", self.id, format_stack(failure))
            failure = ChatError()
        self.outcome = type(failure).__name__
        self.failed = failure.status >= 500 and not isinstance(failure, Unsupported)
        cause = failure.cause or (type(failure.__cause__).__name__ if failure.__cause__ else "")
        if cause:
            log.warning("request id=%s %s: %s", self.id, self.outcome, cause)
        return failure


def format_stack(error: BaseException | None) -> str:
    """Format types and stacks of an error and its causes, without messages.

    Messages may hold text of the conversation.
    """
    parts = []
    while error is not None:
        frames = traceback.format_list(traceback.extract_tb(error.__traceback__))
        parts.append(f"{type(error).__name__}\n{''.join(frames)}")
        error = error.__cause__
    return "caused by ".join(parts).rstrip()


def quiet_libraries() -> None:
    """Raise the log levels of libraries to what is not logged elsewhere."""
    for name in WARNINGS_ONLY:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ERRORS_ONLY:
        logging.getLogger(name).setLevel(logging.ERROR)


class OneLineFormatter(logging.Formatter):
    """Formats records, including stacks, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record. Each line would be a separate entry of the host's log."""
        return super().format(record).replace("\n", " | ")


def log_to_stdout() -> None:
    """Write the log to stdout and stderr, if the Functions worker would pass it to the host.

    The host drops records outside of an invocation, and an invocation ends when its stream begins:
    the lines of streamed answers and of the start would be lost. The host reads the worker's
    output as log lines.
    """
    if not any(type(each).__name__ == "AsyncLoggingHandler" for each in logging.root.handlers):
        return
    log.propagate = False
    for stream in (sys.stdout, sys.stderr):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(OneLineFormatter("%(levelname)s %(message)s"))
        log.addHandler(handler)
    out, errors = log.handlers[-2:]
    out.addFilter(lambda record: record.levelno < logging.WARNING)
    errors.setLevel(logging.WARNING)


class QueryStripper(logging.Filter):
    """Removes query strings from uvicorn's access log: `?code=` may hold a function key."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the path; no record is dropped."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args
            )
        return True
