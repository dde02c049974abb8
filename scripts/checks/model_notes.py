"""Compares the models that are to be deployed with Azure's list: missing ones, retirements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scripts.checks.resource_manager import UnavailableError, send

PARAMETERS = Path(__file__).parent.parent.parent / "infra" / "main.parameters.json"
API_VERSION = "2025-06-01"
NOTICE = timedelta(days=60)
NEVER = datetime.max.replace(tzinfo=UTC)
NOT_LISTED = (
    "Note: Azure lists no {model} {version} with the SKU {sku} in {region}. It has: {skus}. "
    "docs/deploy.md says how to choose another one."
)
RETIRES = (
    "Note: {model} {version} retires on {date}, in {days} days. docs/production.md says how to "
    "change to another model."
)
NOT_CHECKED = "Note: when the models retire was not checked: {reason}"


@dataclass(frozen=True)
class Deployment:
    """A deployment of a model: the name of the model, its version, its SKU."""

    model: str
    version: str
    sku: str


def model_notes(environment: Mapping[str, str], now: datetime | None = None) -> Iterator[str]:
    """Yield the notes. Without a region of the models, for which azd asks later, there are none."""
    region = environment.get("AZURE_OPENAI_LOCATION", "").replace(" ", "").lower()
    subscription = environment.get("AZURE_SUBSCRIPTION_ID")
    if not region or not subscription or environment.get("AZURE_EXISTING_OPENAI_ID"):
        return
    path = f"/subscriptions/{subscription}/providers/Microsoft.CognitiveServices/locations/{region}"
    try:
        value = send(environment, "GET", f"{path}/models", API_VERSION)
    except UnavailableError as error:
        yield NOT_CHECKED.format(reason=error)
        return
    entries = [entry.get("model") for entry in (value or {}).get("value") or ()]
    models = [model for model in entries if isinstance(model, dict)]
    for deployment in read_deployments(environment):
        skus = list_skus(models, deployment)
        if deployment.sku not in skus:
            names = ", ".join(sorted(skus)) or "none"
            yield NOT_LISTED.format(**vars(deployment), region=region, skus=names)
            continue
        left = skus[deployment.sku] - (now or datetime.now(UTC))
        if left < NOTICE:
            date = skus[deployment.sku].date()
            yield RETIRES.format(**vars(deployment), date=date, days=left.days)


def list_skus(
    models: Sequence[Mapping[str, Any]], deployment: Deployment
) -> Mapping[str, datetime]:
    """Return when a model retires, by the names of the SKUs that it has.

    A model can be in the list more than once, and have one date for itself and one for a SKU.
    """
    skus: dict[str, datetime] = {}
    for model in models:
        if (model.get("name"), model.get("version")) == (deployment.model, deployment.version):
            last_day = read_date((model.get("deprecation") or {}).get("inference"))
            for sku in model.get("skus") or ():
                name, date = str(sku.get("name")), read_date(sku.get("deprecationDate"))
                skus[name] = min(last_day, date, skus.get(name, NEVER))
    return skus


def read_date(text: object) -> datetime:
    """Return the day of an ISO 8601 date; NEVER if it is none."""
    match = re.match(r"\d{4}-\d\d-\d\d", str(text))
    try:
        return datetime.fromisoformat(match[0]).replace(tzinfo=UTC) if match else NEVER
    except ValueError:
        return NEVER


def read_deployments(environment: Mapping[str, str]) -> Iterator[Deployment]:
    """Yield the two deployments by azd's variables and the defaults of main.parameters.json."""
    for kind in ("CHAT", "EMBEDDING"):
        names = (f"AZURE_OPENAI_{kind}_{part}" for part in ("MODEL", "MODEL_VERSION", "SKU"))
        yield Deployment(*(read_value(environment, name) for name in names))


def read_value(environment: Mapping[str, str], variable: str) -> str:
    """Return a variable of azd, or its default of infra/main.parameters.json."""
    parameters = json.loads(PARAMETERS.read_text("utf-8"))["parameters"]
    (default,) = (
        match[1]
        for entry in parameters.values()
        if (match := re.fullmatch(rf"\$\{{{variable}=(.*)\}}", str(entry["value"])))
    )
    return environment.get(variable) or default
