"""`python -m ingest.describe_index`, with the real SDK over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.azurite import AzuriteHome, make_home
from tests.support.fake_index import FakeIndex
from tests.support.ingest_azure import Azure, Filled
from tests.support.ingest_command import PATIENCE, Seeing
from tests.support.isolation import app_copy

FIELDS: list[dict[str, Any]] = [
    {"name": "chunk_id", "type": "Edm.String", "key": True, "retrievable": True},
    {"name": "chunk", "type": "Edm.String", "searchable": True, "retrievable": True},
    {"name": "title", "type": "Edm.String", "searchable": True, "retrievable": True},
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> AzuriteHome:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def azure(home: AzuriteHome) -> Iterator[Azure]:
    search = Filled(indexes={"wizard": FakeIndex({"name": "wizard", "fields": FIELDS})})
    fake = Azure(home, search, Seeing(), {})
    with fake.listening(search) as running:
        fake.settings.update(
            AZURE_SEARCH_ENDPOINT=running.url,
            AZURE_SEARCH_INDEX="wizard",
            SSL_CERT_FILE=home.ca,
            PATH=f"{home.folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        )
        yield fake


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ingest.describe_index", *arguments],
        cwd=app_copy(),
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_settings_for_an_index_are_printed(azure: Azure) -> None:
    done = run(**azure.settings)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert '  "AZURE_SEARCH_INDEX": "wizard",' in lines
    (fields,) = (line for line in lines if line.startswith('  "AZURE_SEARCH_FIELDS": '))
    assert r"\"content\": \"chunk\"" in fields
    assert "  azd env set AZURE_SEARCH_INDEX wizard" in lines
    assert "No field says who may see a document." in done.stdout
    assert [request.method for request in azure.search.requests] == ["GET"]


def test_another_index_is_named_on_the_command_line(azure: Azure) -> None:
    done = run("other", **azure.settings)

    assert done.returncode == 1
    message = "There is no index other at this service (AZURE_SEARCH_ENDPOINT).\n"
    assert done.stderr.endswith(message)


def test_service_that_does_not_answer_is_a_sentence(azure: Azure) -> None:
    done = run(**{**azure.settings, "AZURE_SEARCH_ENDPOINT": "https://127.0.0.1:9"})

    assert done.returncode == 1
    assert "Azure AI Search did not answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_service_is_named() -> None:
    done = run(AZURE_SEARCH_ENDPOINT="", INDEX_FILE="samples")

    assert (done.returncode, done.stderr) == (1, "AZURE_SEARCH_ENDPOINT is required\n")
