"""GET /health: the parts in use and whether they answer, or which settings are wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from shared.domain.errors import ChatError, DeadlineExceeded
from shared.http.call import JSON, Json, Reply, dumps
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Route
from shared.protocols.openapi.operation import Operation

CACHE_SECONDS = 30.0  # /health is public: it must not load the services
CHECK_SECONDS = 5.0

log = logging.getLogger("chat")


class Component(Protocol):
    """A part of the app that can be checked."""

    @property
    def name(self) -> str:
        """What the log and `/health` call it."""

    @property
    def ready(self) -> Callable[[], Awaitable[None]]:
        """Checks that it responds. Raises ChatErrors."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check of a component."""

    name: str  # of the component
    run: Callable[[], Awaitable[None]]  # raises a ChatError if it does not respond
    # Returns more about a component that responds, without a request; it may read a file.
    details: Callable[[], Json] | None = None


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The results of the checks, by kind of component."""

    failing: Mapping[str, str] = field(default_factory=dict)  # error messages
    details: Mapping[str, Json] = field(default_factory=dict)


class Health:
    """Runs checks, by kind of component (`model`, `index`), and caches their results.

    `shows_causes`: an error message ends with its cause, which may name addresses. On a laptop
    whoever asks may read it; elsewhere it is only in the log.
    """

    def __init__(
        self,
        checks: Mapping[str, HealthCheck] = MappingProxyType({}),
        cache_seconds: float = CACHE_SECONDS,
        *,
        shows_causes: bool = False,
    ) -> None:
        self.checks = checks
        self._cache_seconds, self._shows_causes = cache_seconds, shows_causes
        self._lock = asyncio.Lock()
        self._report = HealthReport()
        self._expires = 0.0

    @property
    def names(self) -> Mapping[str, str]:
        """The names of the components, by kind."""
        return {kind: check.name for kind, check in self.checks.items()}

    async def report(self) -> HealthReport:
        """Return the results of all checks."""
        async with self._lock:  # concurrent callers share one result
            if time.monotonic() >= self._expires:
                checks = (self._run_check(*item) for item in self.checks.items())
                results = dict(zip(self.checks, await asyncio.gather(*checks), strict=True))
                self._report = HealthReport(
                    {kind: failure for kind, (failure, _) in results.items() if failure},
                    {kind: details for kind, (_, details) in results.items() if details},
                )
                self._expires = time.monotonic() + self._cache_seconds
        return self._report

    async def _run_check(self, kind: str, check: HealthCheck) -> tuple[str | None, Json | None]:
        """Return an error message, or the details of a component that responds."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await check.run()
                return None, await asyncio.to_thread(check.details) if check.details else None
        except TimeoutError:
            failure: ChatError = DeadlineExceeded("It does not answer in time.")
        except ChatError as error:
            failure = error
        except Exception as error:  # a custom adapter may raise anything
            failure = ChatError(cause=type(error).__name__)
        log.warning("health: %s %s: %s", kind, type(failure).__name__, failure.cause or "")
        message, cause = failure.message, failure.cause or ""
        adds_cause = self._shows_causes and cause not in message
        return f"{message} ({cause})" if adds_cause else message, None


async def health(exchange: Exchange) -> Reply:
    """Answer a call. Never raises."""
    app, checks = exchange.app, exchange.app.config(Health)
    if app.problems:
        wrong = {"error": "Settings are wrong or missing.", "settings": list(app.problems)}
        return Reply(503, JSON, dumps(wrong))
    # HEAD only checks that the app runs: it calls no service.
    report = HealthReport() if exchange.call.method == "HEAD" else await checks.report()
    status = {"status": "degraded" if report.failing else "ok"}
    more = {"failing": report.failing, "details": report.details}
    present = {key: value for key, value in more.items() if value}
    return exchange.json_reply({**status, **checks.names, **present})


ROUTES = (
    Route(
        path="/health",
        methods=READ,
        handler=health,
        errors=context_json.ERRORS,
        auth="anonymous",
        operations={
            "GET": Operation(
                tag="App",
                summary="Say which parts are in use and whether they respond",
                description="With a 503: which settings are wrong.",
                error=context_json.ERROR_SCHEMA,
            )
        },
        usage="GET /health",
    ),
)
