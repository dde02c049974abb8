"""One line a request: who was asked what kind of thing, how long it took, how it ended.

Never a key, never a word of the conversation.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from shared.chat import Context, Done, Event

log = logging.getLogger("chat")


@dataclass(slots=True)
class Record:
    """What is known of one request by now; `write` makes its line."""

    id: str
    route: str
    dialect: str = "-"
    status: int = 0
    hits: int | None = None
    tokens: int | None = None
    outcome: str = "ok"
    first: float | None = None
    started: float = field(default_factory=time.monotonic)

    def saw(self, event: Event) -> None:
        """Take down what one event of the answer tells."""
        if self.first is None:
            self.first = time.monotonic() - self.started
        if isinstance(event, Context):
            self.hits = len(event.sources)
        if isinstance(event, Done) and event.usage is not None:
            self.tokens = event.usage.total_tokens

    def write(self) -> None:
        """The line: `request id=... route=/chat ... outcome=ok`; seconds, `-` where unknown."""
        first = "-" if self.first is None else f"{self.first:.3f}"
        log.info(
            "request id=%s route=%s dialect=%s status=%d first=%s total=%.3f hits=%s tokens=%s "
            "outcome=%s",
            self.id,
            self.route,
            self.dialect,
            self.status,
            first,
            time.monotonic() - self.started,
            "-" if self.hits is None else self.hits,
            "-" if self.tokens is None else self.tokens,
            self.outcome,
        )

    def broke(self, error: BaseException) -> None:
        """Log a failure that nobody foresaw, with its stack and the request's id."""
        log.error("request id=%s failed: %s", self.id, type(error).__name__, exc_info=error)


class NoQueries(logging.Filter):
    """Takes the query out of uvicorn's access log: a function key may stand in `?code=`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites the line's path; every line is kept."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args
            )
        return True
