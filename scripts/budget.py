"""Creates a monthly budget for the resource group, or changes its amount.

Bicep cannot: the start of a budget must be in the month in which it is created, and never changes
(https://github.com/Azure/azure-quickstart-templates/issues/7095).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from scripts.checks.resource_manager import UnavailableError, send

VARIABLE = "AZURE_BUDGET_AMOUNT"
API_VERSION = "2023-11-01"
SET = (
    "A mail goes to {contact} when the resource group {group} has cost 80 % of {amount} in a "
    "month, in the currency of the subscription, or is expected to cost more than that. Nothing "
    "is stopped."
)
NOT_SET = (
    "The budget of {amount} was not set: {reason} Set one in the portal (Cost Management, "
    "Budgets), or azd env set {variable} 0."
)


def set_budget(environment: Mapping[str, str], now: datetime | None = None) -> list[str]:
    """Create or change the budget. Returns messages; none without an amount."""
    amount = int(environment.get(VARIABLE) or 0)
    if amount <= 0:
        return []
    group, subscription = environment["AZURE_RESOURCE_GROUP"], environment["AZURE_SUBSCRIPTION_ID"]
    path = (
        f"/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Consumption"
        f"/budgets/budget-{environment['AZURE_ENV_NAME']}"
    )
    email = environment.get("AZURE_ALERT_EMAIL", "")
    first_of_month = (now or datetime.now(UTC)).strftime("%Y-%m-01T00:00:00Z")
    try:
        present = send(environment, "GET", path, API_VERSION) or {}
        period = (present.get("properties") or {}).get("timePeriod")
        body = {
            **({"eTag": present["eTag"]} if "eTag" in present else {}),
            "properties": {
                "category": "Cost",
                "amount": amount,
                "timeGrain": "Monthly",
                "timePeriod": period or {"startDate": first_of_month},
                "notifications": {
                    "actual": notification(email, "Actual", 80),
                    "forecast": notification(email, "Forecasted", 100),
                },
            },
        }
        if send(environment, "PUT", path, API_VERSION, body=body) is None:
            raise UnavailableError(f"there is no resource group {group}.")
    except UnavailableError as error:
        return [NOT_SET.format(amount=amount, reason=error, variable=VARIABLE)]
    contact = email or "the owners of the group"
    return [SET.format(contact=contact, group=group, amount=amount)]


def notification(email: str, kind: str, percent: int) -> dict[str, Any]:
    """Return a notification at a percentage of the amount."""
    return {
        "enabled": True,
        "operator": "GreaterThanOrEqualTo",
        "threshold": percent,
        "thresholdType": kind,
        "contactEmails": [email] if email else [],
        "contactRoles": [] if email else ["Owner"],
    }
