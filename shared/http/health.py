"""Which parts are in use, and do they answer? Asked of them at most every half minute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from shared.chat.errors import ChatError, DeadlineExceeded

CACHE_SECONDS = 30.0  # anyone may ask: the services behind shall not feel it
CHECK_SECONDS = 5.0

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A part in use: its name, and what raises a ChatError where it does not answer."""

    name: str
    run: Callable[[], Awaitable[None]]


class Health:
    """What is known of the parts, by what they are: `model`, `index`."""

    def __init__(self, parts: Mapping[str, HealthCheck], fresh: float = CACHE_SECONDS) -> None:
        self.checks = parts
        self._fresh = fresh
        self._asking = asyncio.Lock()
        self._failing: Mapping[str, str] = {}
        self._until = 0.0

    @property
    def names(self) -> Mapping[str, str]:
        """The names of the parts."""
        return {kind: part.name for kind, part in self.checks.items()}

    async def failures(self) -> Mapping[str, str]:
        """A sentence for each part that does not answer."""
        async with self._asking:  # who comes meanwhile gets the same answer
            if time.monotonic() >= self._until:
                said = await asyncio.gather(*(_run_check(*item) for item in self.checks.items()))
                told = zip(self.checks, said, strict=True)
                self._failing = {kind: sentence for kind, sentence in told if sentence}
                self._until = time.monotonic() + self._fresh
        return self._failing


async def _run_check(kind: str, part: HealthCheck) -> str | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await part.run()
    except TimeoutError:
        return _log_failure(kind, DeadlineExceeded("It does not answer in time."))
    except ChatError as failure:
        return _log_failure(kind, failure)
    except Exception as bug:  # a part of a fork's own
        return _log_failure(kind, ChatError(cause=type(bug).__name__))
    return None


def _log_failure(kind: str, failure: ChatError) -> str:
    log.warning("health: %s %s: %s", kind, type(failure).__name__, failure.cause or "")
    return failure.message
