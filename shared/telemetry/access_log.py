"""One line a request: its route and protocol, its status, its times, how it ended.

Never a key, never a word of the conversation.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from contextlib import aclosing
from dataclasses import dataclass, field

from shared.chat.errors import ChatError, Unsupported
from shared.chat.events import Context, Done, Event, Events
from shared.telemetry.spans import NOOP_TRACER, Attributes, AttributeValue, Span

log = logging.getLogger("chat")

# The libraries that tell of every request to a service, with its address and headers.
WARNINGS_ONLY = ("azure.monitor", "httpx2", "openai")
# Those that also warn, with a stack, of what is an error of ours and told as such: a tool that is
# not signed in beside one that is, a refusal without a body.
ERRORS_ONLY = ("azure.core", "azure.cosmos", "azure.identity", "azure.search", "azure.storage")


@dataclass(slots=True)
class AccessLog:
    """What is known of one request by now; `write` makes its line."""

    id: str
    method: str
    route: str
    dialect: str = "-"
    status: int = 0
    hits: int | None = None
    tokens: int | None = None
    outcome: str = "ok"
    failed: bool = False
    span: Span = NOOP_TRACER
    first_event_seconds: float | None = None
    start_time: float = field(default_factory=time.monotonic)

    def record_event(self, event: Event) -> None:
        """Take down what one event of the answer tells."""
        if self.first_event_seconds is None:
            self.first_event_seconds = time.monotonic() - self.start_time
        if isinstance(event, Context):
            self.hits = len(event.sources)
        if isinstance(event, Done) and event.usage is not None:
            self.tokens = event.usage.total_tokens

    async def observe(self, events: Events) -> Events:
        """The same events, each taken down."""
        async with aclosing(events):
            async for event in events:
                self.record_event(event)
                yield event

    def write(self) -> None:
        """The line: `request id=... POST /chat ... outcome=ok`; seconds, `-` where unknown.

        With it the request is over: its span ends, which says the same.

        A warning where the fault is ours or a service's, so that an alert can go by the level.
        """
        first = "-" if self.first_event_seconds is None else f"{self.first_event_seconds:.3f}"
        log.log(
            logging.WARNING if self.failed else logging.INFO,
            "request id=%s %s %s dialect=%s status=%d first=%s total=%.3f hits=%s tokens=%s "
            "outcome=%s",
            self.id,
            self.method,
            self.route,
            self.dialect,
            self.status,
            first,
            time.monotonic() - self.start_time,
            "-" if self.hits is None else self.hits,
            "-" if self.tokens is None else self.tokens,
            self.outcome,
        )
        self.span.set_attributes(self._attributes())
        self.span.end(self.outcome if self.failed else "")

    def _attributes(self) -> Attributes:
        # Names of ours: Azure Monitor keeps only for itself what has OpenTelemetry's (`http...`).
        known: dict[str, AttributeValue | None] = {
            "chat.id": self.id,
            "chat.route": self.route,
            "chat.status": self.status,
            "chat.dialect": self.dialect,
            "chat.first_event_seconds": self.first_event_seconds,
            "chat.hits": self.hits,
            "chat.tokens": self.tokens,
            "chat.outcome": self.outcome,
        }
        return {name: fact for name, fact in known.items() if fact is not None}

    def record_failure(self, failure: ChatError) -> None:
        """Take down how the request failed, and log what is behind it: not the caller's affair."""
        self.outcome = type(failure).__name__
        self.failed = failure.status >= 500 and not isinstance(failure, Unsupported)
        behind = failure.cause or (type(failure.__cause__).__name__ if failure.__cause__ else "")
        if behind:
            log.warning("request id=%s %s: %s", self.id, type(failure).__name__, behind)

    def log_exception(self, error: BaseException) -> None:
        """Log a failure that nobody foresaw, with its stack and the request's id."""
        log.error("request id=%s failed: %s", self.id, format_stack(error))


def format_stack(error: BaseException | None) -> str:
    """What an error is, and where it and what caused it was raised: never its message.

    That may hold what was asked.
    """
    told = []
    while error is not None:
        frames = traceback.format_list(traceback.extract_tb(error.__traceback__))
        told.append(f"{type(error).__name__}\n{''.join(frames)}")
        error = error.__cause__
    return "caused by ".join(told).rstrip()


def quiet_libraries() -> None:
    """Let the services' libraries tell of what nobody else does."""
    for name in WARNINGS_ONLY:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ERRORS_ONLY:
        logging.getLogger(name).setLevel(logging.ERROR)


class OneLineFormatter(logging.Formatter):
    """Level and message; what has several lines, such as a stack, in one."""

    def format(self, record: logging.LogRecord) -> str:
        """Each line of the host's log is an entry of its own: a stack would be dozens."""
        return super().format(record).replace("\n", " | ")


def log_to_stdout() -> None:
    """Write our lines to the worker's own output, where it is the host that would get them.

    The host drops every line that the worker hands it outside of an invocation, and an invocation
    is over when its stream begins: the line of a streamed answer, and those of the start, would be
    lost. It takes what stands in the output for a line of the log, with the level of its words.
    """
    if not any(type(it).__name__ == "AsyncLoggingHandler" for it in logging.root.handlers):
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
    """Takes the query out of uvicorn's access log: a function key may stand in `?code=`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites the line's path; every line is kept."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args
            )
        return True
