"""What is measured: which questions, how many at once, and how fast the services are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.serving.replies import TOKENS
from bench.serving.targets import Target

NO_DELAY = {"search": 0.0, "first_token": 0.0, "token": 0.0}
AZURE_DELAY = {"search": 0.06, "first_token": 0.3, "token": 0.01}
BODY = {"messages": [{"role": "user", "content": "How many days may I carry over?"}]}


@dataclass(frozen=True, slots=True)
class Case:
    """So many questions, so many of them at once."""

    name: str
    at_once: int
    answers: int
    delays: Mapping[str, float]

    def job(self, target: Target, scale: float) -> dict[str, Any]:
        """What the load client does."""
        return {
            "url": f"{target.url}/chat/stream",
            "pid": target.pid,
            "body": BODY,
            "at_once": self.at_once,
            "answers": max(self.at_once, round(self.answers * scale)),
            "warm_up": self.at_once if self.delays["token"] else max(20, 2 * self.at_once),
            "tokens": TOKENS,
        }


QUICK = (
    Case("1 at once, no delay", 1, 100, NO_DELAY),
    Case("50 at once, no delay", 50, 200, NO_DELAY),
    Case("1 at once, 10 ms a token", 1, 3, AZURE_DELAY),
    Case("50 at once, 10 ms a token", 50, 50, AZURE_DELAY),
)
