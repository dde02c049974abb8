"""The budget that the hook after provisioning sets, over a fake Resource Manager."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scripts.budget import set_budget
from tests.support.azd import install_azd
from tests.support.http_server import QuietHandler, run_http_server

PATH = (
    "/subscriptions/sub/resourceGroups/rg-dev/providers/Microsoft.Consumption/budgets/budget-dev"
    "?api-version=2023-11-01"
)
NOVEMBER = datetime(2026, 11, 23, tzinfo=UTC)
JANUARY = datetime(2027, 1, 5, tzinfo=UTC)


@dataclass
class Budgets:
    """The budgets of a subscription, with Azure's rules about their start."""

    present: dict[str, Any] = field(default_factory=dict)
    refusal: int = 0
    now: datetime = NOVEMBER

    def put(self, body: dict[str, Any]) -> int:
        start = body["properties"]["timePeriod"]["startDate"]
        old = self.present.get("properties", {}).get("timePeriod", {}).get("startDate")
        in_month = start == self.now.strftime("%Y-%m-01T00:00:00Z")
        if self.refusal or (start != old if old else not in_month):
            return self.refusal or 400
        if self.present and body.get("eTag") != self.present["eTag"]:
            return 412
        period = {"startDate": start, "endDate": "2036-11-01T00:00:00Z"}
        self.present = {**body, "eTag": f'"{id(body)}"'}
        self.present["properties"]["timePeriod"] = period
        return 201


@contextmanager
def serve(budgets: Budgets) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send(200 if budgets.present else 404, budgets.present)

        def do_PUT(self) -> None:
            length = int(self.headers["Content-Length"])
            status = budgets.put(json.loads(self.rfile.read(length)))
            error = {"error": {"code": "X", "message": "Start date of budgets cannot be updated."}}
            self.send(status, budgets.present if status < 300 else error)

        def send(self, status: int, value: Any) -> None:
            known = self.path == PATH and self.headers["Authorization"] == "Bearer secret"
            self.send_response(status if known else 500)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

    with run_http_server(Handler) as url:
        yield url


def run(budgets: Budgets, folder: Path, **variables: str) -> list[str]:
    install_azd(folder, '{"token": "secret"}')
    with serve(budgets) as url:
        environment = {
            "PATH": str(folder),
            "AZURE_ENV_NAME": "dev",
            "AZURE_SUBSCRIPTION_ID": "sub",
            "AZURE_RESOURCE_GROUP": "rg-dev",
            "AZURE_RESOURCE_MANAGER_URL": url,
            "AZURE_BUDGET_AMOUNT": "100",
            **variables,
        }
        return set_budget(environment, budgets.now)


def test_new_budget_notifies_before_and_at_its_amount(tmp_path: Path) -> None:
    budgets = Budgets()
    (message,) = run(budgets, tmp_path, AZURE_ALERT_EMAIL="we@example.com")
    properties = budgets.present["properties"]
    notifications = properties["notifications"].values()

    assert (properties["amount"], properties["timeGrain"]) == (100, "Monthly")
    assert [(one["thresholdType"], one["threshold"]) for one in notifications] == [
        ("Actual", 80),
        ("Forecasted", 100),
    ]
    assert {tuple(one["contactEmails"]) for one in notifications} == {("we@example.com",)}
    assert "A mail goes to we@example.com" in message


def test_owners_are_notified_without_an_address(tmp_path: Path) -> None:
    budgets = Budgets()
    (message,) = run(budgets, tmp_path)
    (roles,) = {
        tuple(one["contactRoles"])
        for one in budgets.present["properties"]["notifications"].values()
    }

    assert roles == ("Owner",)
    assert "the owners of the group" in message


def test_amount_changes_in_a_later_month(tmp_path: Path) -> None:
    budgets = Budgets()
    run(budgets, tmp_path)
    budgets.now = JANUARY
    (message,) = run(budgets, tmp_path, AZURE_BUDGET_AMOUNT="250")

    assert "80 % of 250" in message
    assert budgets.present["properties"]["amount"] == 250
    assert budgets.present["properties"]["timePeriod"]["startDate"] == "2026-11-01T00:00:00Z"


@pytest.mark.parametrize("amount", ["", "0", "-5"])
def test_no_budget_without_an_amount(amount: str, tmp_path: Path) -> None:
    budgets = Budgets()

    assert run(budgets, tmp_path, AZURE_BUDGET_AMOUNT=amount) == []
    assert budgets.present == {}


def test_missing_group_is_reported(tmp_path: Path) -> None:
    (message,) = run(Budgets(refusal=404), tmp_path)

    assert "there is no resource group rg-dev" in message


@pytest.mark.parametrize("status", [400, 403])
def test_refused_budget_is_reported_and_stops_nothing(status: int, tmp_path: Path) -> None:
    (message,) = run(Budgets(refusal=status), tmp_path)

    assert f"responds with {status}: Start date of budgets cannot be updated." in message
    assert "Cost Management" in message
