"""What the app imports at its start: the libraries that its settings need, and no others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import FAKE_INDEX

ROOT = Path(__file__).parent.parent.parent
AZURE = {
    "AZURE_SEARCH_ENDPOINT": "https://127.0.0.1:9",
    "AZURE_SEARCH_INDEX": "docs",
    "AZURE_OPENAI_ENDPOINT": "https://127.0.0.1:9",
    "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "embedding",
    "AZURE_STORAGE_ENDPOINT": "https://127.0.0.1:9",
    "AZURE_COSMOS_ENDPOINT": "https://127.0.0.1:9",
    "IDENTITY_ENDPOINT": "http://127.0.0.1:9",
    "IDENTITY_HEADER": "header",
}
SDKS = {
    "aiohttp",
    "azure.cosmos",
    "azure.identity",
    "azure.storage.blob",
    "httpx2",
    "openai",
}
# What other settings need, and what no setting does. Some of it the SDKs could import.
OTHER_ADAPTERS = {
    "azure.monitor",
    "opentelemetry.sdk",
    "shared.files.folder",
    "ingest",
    "shared.memory.sqlite",
    "shared.models.demo",
    "shared.models.providers.request_provider",
    "shared.retrieval.sqlite",
    "shared.telemetry.open_telemetry",
    "sqlite3",
    "yaml",
}
UNUSED = {
    "azure.search",
    "bs4",
    "httpx",
    "langchain_core",
    "lxml",
    "msal_extensions",
    "msrest",
    "numpy",
    "openai.resources",
    "pandas",
    "PIL",
    "pypdf",
    "tests",
    "unittest",
    "uvloop",
    "websockets",
}
REPORT = """
import gc, json, sys, function_app
state = {"problems": function_app.chat_app.problems, "collects": gc.isenabled()}
print(json.dumps(state | {"exempt": gc.get_freeze_count(), "modules": sorted(sys.modules)}))
"""


def start_app(settings: Mapping[str, str]) -> dict[str, Any]:
    """Imports the app in a process of its own. Returns what that process reports."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        cwd=ROOT,
        env=dict(settings),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    state: dict[str, Any] = json.loads(done.stdout)
    return state


@pytest.fixture(scope="module")
def in_azure() -> dict[str, Any]:
    return start_app(AZURE)


def imported(state: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """Returns the names of the modules that the process has imported."""
    return set(names) & set(state["modules"])


def test_default_settings_load_no_sdk() -> None:
    state = start_app({})

    assert imported(state, {"azurefunctions", "shared.retrieval.sqlite"})
    assert not imported(state, SDKS | UNUSED | {"msal", "cryptography", "requests", "yaml"})


@pytest.mark.part("uploads")
def test_uploads_load_nothing_that_reads_documents(tmp_path: Path) -> None:
    laptop = {"AZURE_FUNCTIONS_ENVIRONMENT": "Development", "UPLOADS_FOLDER": str(tmp_path / "new")}
    state = start_app(laptop | {"UPLOADS": "on"})

    assert state["problems"] == []
    assert imported(state, {"shared.uploads.folder.store"})
    assert not imported(state, {"ingest", "semantic_text_splitter"} | SDKS | UNUSED)


def test_azure_settings_load_their_sdks_and_nothing_else(in_azure: dict[str, Any]) -> None:
    assert in_azure["problems"] == []
    assert imported(in_azure, SDKS) == SDKS
    assert not imported(in_azure, OTHER_ADAPTERS | UNUSED)


def test_search_and_model_load_no_other_sdk() -> None:
    others = ("AZURE_STORAGE_ENDPOINT", "AZURE_COSMOS_ENDPOINT")
    state = start_app({name: value for name, value in AZURE.items() if name not in others})

    assert state["problems"] == []
    assert not imported(state, {"azure.cosmos", "azure.storage"} | OTHER_ADAPTERS)


def test_server_with_a_key_loads_no_azure() -> None:
    keyed = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_CHAT_MODEL": "m"}
    state = start_app(keyed | FAKE_INDEX)

    assert state["problems"] == []
    assert imported(state, SDKS) == {"aiohttp", "httpx2", "openai"}
    assert not imported(state, {"azure.identity", "msal", "cryptography", "requests"})


def test_garbage_collection_leaves_out_what_the_start_made(in_azure: dict[str, Any]) -> None:
    assert in_azure["collects"]
    assert in_azure["exempt"] > 100_000
