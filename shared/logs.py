"""One line a request: its route and protocol, its status, its times, how it ended.

Never a key, never a word of the conversation.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from shared.chat import Context, Done, Event
from shared.errors import ChatError

log = logging.getLogger("chat")

# The libraries that tell of every request to a service, with its address and headers.
TALKATIVE = ("httpx2", "openai")
# Those that also warn, with a stack, of what is an error of ours and told as such: a tool that is
# not signed in beside one that is, a refusal without a body.
WORRIED = ("azure.core", "azure.identity", "azure.search", "azure.storage")


@dataclass(slots=True)
class Record:
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
        """The line: `request id=... POST /chat ... outcome=ok`; seconds, `-` where unknown.

        A warning where the fault is ours or a service's, so that an alert can go by the level.
        """
        first = "-" if self.first is None else f"{self.first:.3f}"
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
            time.monotonic() - self.started,
            "-" if self.hits is None else self.hits,
            "-" if self.tokens is None else self.tokens,
            self.outcome,
        )

    def caused(self, failure: ChatError) -> None:
        """Take down how the request failed, and log what is behind it: not the caller's affair."""
        self.outcome, self.failed = type(failure).__name__, failure.status >= 500
        behind = failure.cause or (type(failure.__cause__).__name__ if failure.__cause__ else "")
        if behind:
            log.warning("request id=%s %s: %s", self.id, type(failure).__name__, behind)

    def broke(self, error: BaseException) -> None:
        """Log a failure that nobody foresaw, with its stack and the request's id."""
        log.error("request id=%s failed: %s", self.id, type(error).__name__, exc_info=error)


def hush() -> None:
    """Let the services' libraries tell of what nobody else does."""
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in WORRIED:
        logging.getLogger(name).setLevel(logging.ERROR)


class NoQueries(logging.Filter):
    """Takes the query out of uvicorn's access log: a function key may stand in `?code=`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites the line's path; every line is kept."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args
            )
        return True
