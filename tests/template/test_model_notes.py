"""What the first hook says about the models, by Azure's list of a region."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scripts.checks import preprovision
from scripts.checks.model_notes import model_notes
from tests.support import bicep
from tests.support.azd import install_azd
from tests.support.http_server import QuietHandler, run_http_server

NOW = datetime(2027, 11, 20, 12, tzinfo=UTC)
PATH = "/subscriptions/sub/providers/Microsoft.CognitiveServices/locations/swedencentral/models"


def entry(name: str, version: str, retires: str = "", **skus: str) -> dict[str, Any]:
    """An entry of the list, in the form of the API: the SKUs with their own dates, where given."""
    model: dict[str, Any] = {"format": "OpenAI", "name": name, "version": version}
    model["skus"] = [
        {"name": sku, "usageName": f"OpenAI.{sku}.{name}"} | ({"deprecationDate": at} if at else {})
        for sku, at in skus.items()
    ]
    if retires:
        model["deprecation"] = {"fineTune": "2027-01-01T00:00:00Z", "inference": retires}
    return {"kind": "AIServices", "skuName": "S0", "model": model}


def defaults(kind: str) -> tuple[str, str]:
    """The model and the version of main.bicep."""
    params = bicep.params("main.bicep")
    return params[f"{kind}Model"].default or "", params[f"{kind}ModelVersion"].default or ""


CHAT, EMBEDDING = defaults("chat"), defaults("embedding")
EMBEDDINGS = entry(*EMBEDDING, GlobalStandard="", Standard="")


@contextmanager
def region(*entries: dict[str, Any], status: int = 200) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            known = self.path == f"{PATH}?api-version=2025-06-01"
            self.send_response(status if known else 400)
            self.end_headers()
            self.wfile.write(json.dumps({"value": [*entries, EMBEDDINGS]}).encode())

    with run_http_server(Handler) as url:
        yield url


def environment(folder: Path, url: str, **variables: str) -> dict[str, str]:
    install_azd(folder, '{"token": "secret"}')
    return {
        "PATH": str(folder),
        "AZURE_SUBSCRIPTION_ID": "sub",
        "AZURE_OPENAI_LOCATION": "Sweden Central",
        "AZURE_RESOURCE_MANAGER_URL": url,
        **variables,
    }


@pytest.mark.parametrize(
    "chat",
    [
        entry(*CHAT, GlobalStandard=""),
        entry(*CHAT, "2028-01-11T00:00:00Z", GlobalStandard="2028-01-11T00:00:00Z"),
        entry(*CHAT, "2028-01-20T00:00:00Z", GlobalStandard="", Standard="2027-12-01T00:00:00Z"),
    ],
)
def test_model_that_lasts_gets_no_note(chat: dict[str, Any], tmp_path: Path) -> None:
    early = datetime(2027, 11, 2, tzinfo=UTC)
    with region(chat) as url:
        assert list(model_notes(environment(tmp_path, url), early)) == []


@pytest.mark.parametrize(
    "chat",
    [
        entry(*CHAT, GlobalStandard="2028-01-11T00:00:00Z"),
        entry(*CHAT, "2028-01-11T00:00:00Z", GlobalStandard="2028-06-01T00:00:00Z"),
    ],
)
def test_model_that_retires_soon_is_named_with_its_date(
    chat: dict[str, Any], tmp_path: Path
) -> None:
    with region(chat) as url:
        (note,) = model_notes(environment(tmp_path, url), NOW)

    assert " ".join(CHAT) + " retires on 2028-01-11, in 51 days" in note
    assert "docs/production.md" in note


def test_model_without_the_sku_is_named_with_those_that_it_has(tmp_path: Path) -> None:
    chat = entry(*CHAT, GlobalStandard="", ProvisionedManaged="")
    with region(chat) as url:
        variables = {"AZURE_OPENAI_CHAT_SKU": "DataZoneStandard"}
        (sku,) = model_notes(environment(tmp_path, url, **variables), NOW)
        variables = {"AZURE_OPENAI_EMBEDDING_MODEL": "other"}
        (name,) = model_notes(environment(tmp_path, url, **variables), NOW)

    assert "with the SKU DataZoneStandard in swedencentral. It has: GlobalStandard, Prov" in sku
    assert "no other 1 with the SKU GlobalStandard in swedencentral. It has: none." in name


def test_list_that_cannot_be_read_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with region(status=500) as url:
        assert preprovision.main(environment(tmp_path, url), (3, 13)) == 0

    error = capsys.readouterr().err
    assert "when the models retire was not checked: Resource Manager responds with 500." in error


@pytest.mark.parametrize(
    "variables",
    [
        {"AZURE_OPENAI_LOCATION": ""},
        {"AZURE_SUBSCRIPTION_ID": ""},
        {"AZURE_EXISTING_OPENAI_ID": "/subscriptions/s"},
    ],
)
def test_nothing_is_asked_where_the_models_are_not_known(
    variables: dict[str, str], tmp_path: Path
) -> None:
    assert list(model_notes(environment(tmp_path, "http://127.0.0.1:9", **variables), NOW)) == []
