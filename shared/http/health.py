"""Checks whether the services in use respond, at most every 30 seconds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from shared.chat.errors import ChatError, DeadlineExceeded

CACHE_SECONDS = 30.0  # /health is public: it must not load the services
CHECK_SECONDS = 5.0

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The name of a component, and a check that raises a ChatError if it does not respond."""

    name: str
    run: Callable[[], Awaitable[None]]


class Health:
    """Runs checks, by kind of component (`model`, `index`), and caches their results."""

    def __init__(
        self, checks: Mapping[str, HealthCheck], cache_seconds: float = CACHE_SECONDS
    ) -> None:
        self.checks = checks
        self._cache_seconds = cache_seconds
        self._lock = asyncio.Lock()
        self._failures: Mapping[str, str] = {}
        self._expires = 0.0

    @property
    def names(self) -> Mapping[str, str]:
        """The names of the components, by kind."""
        return {kind: check.name for kind, check in self.checks.items()}

    async def failures(self) -> Mapping[str, str]:
        """Return an error message for each component that fails its check."""
        async with self._lock:  # concurrent callers share one result
            if time.monotonic() >= self._expires:
                checks = (_run_check(*item) for item in self.checks.items())
                results = zip(self.checks, await asyncio.gather(*checks), strict=True)
                self._failures = {kind: message for kind, message in results if message}
                self._expires = time.monotonic() + self._cache_seconds
        return self._failures


async def _run_check(kind: str, check: HealthCheck) -> str | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check.run()
    except TimeoutError:
        return _log_failure(kind, DeadlineExceeded("It does not answer in time."))
    except ChatError as failure:
        return _log_failure(kind, failure)
    except Exception as error:  # a custom adapter may raise anything
        return _log_failure(kind, ChatError(cause=type(error).__name__))
    return None


def _log_failure(kind: str, failure: ChatError) -> str:
    log.warning("health: %s %s: %s", kind, type(failure).__name__, failure.cause or "")
    return failure.message
