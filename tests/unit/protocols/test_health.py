"""The checks behind /health: they are cached, shared and name what fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from shared.domain.errors import ChatError, Misconfigured
from shared.protocols.health import Health, HealthCheck, HealthReport


class Component:
    """A component that counts its checks, each of which may raise an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.checks = error, 0

    async def ready(self) -> None:
        self.checks += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error


def reports(checks: Mapping[str, HealthCheck], count: int, seconds: float) -> list[HealthReport]:
    """As many reports, half of them at the same time."""

    async def ask() -> list[HealthReport]:
        health = Health(checks, seconds)
        first = [await health.report() for _ in range(count // 2)]
        return first + await asyncio.gather(*(health.report() for _ in range(count - count // 2)))

    return asyncio.run(ask())


@pytest.mark.parametrize(("seconds", "checks"), [(1000.0, 1), (0.0, 6)])
def test_services_are_not_asked_again_while_a_report_is_fresh(seconds: float, checks: int) -> None:
    component = Component()
    results = reports({"index": HealthCheck("manuals", component.ready)}, 6, seconds)

    assert component.checks == checks
    assert results == [HealthReport()] * 6


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Misconfigured("Set the key.", cause="m: status 401"), "Set the key. (m: status 401)"),
        (Misconfigured("Set the key."), "Set the key."),
        (Misconfigured("Set the key.", cause="Set the key."), "Set the key."),
        (KeyError("secret"), f"{ChatError.default} (KeyError)"),
    ],
)
def test_report_has_the_cause_where_the_caller_may_know_it(error: Exception, message: str) -> None:
    async def report(shows_causes: bool) -> HealthReport:
        checks = {"model": HealthCheck("a", Component(error).ready)}
        return await Health(checks, 0, shows_causes=shows_causes).report()

    assert asyncio.run(report(True)).failing == {"model": message}
    assert asyncio.run(report(False)).failing == {"model": message.partition(" (")[0]}


def test_report_names_what_fails_and_describes_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    broken = {
        "model": HealthCheck("a", Component(Misconfigured("Set the key.")).ready, lambda: {"x": 1}),
        "memory": HealthCheck("b", Component(KeyError("secret")).ready),
        "index": HealthCheck("c", Component().ready, lambda: {"passages": 66}),
    }
    (report,) = reports(broken, 1, 0)

    assert report.failing == {"model": "Set the key.", "memory": ChatError.default}
    assert report.details == {"index": {"passages": 66}}
    assert "health: memory ChatError: KeyError" in caplog.messages
    assert "secret" not in caplog.text
