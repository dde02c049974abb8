"""How the app that reads uploads is made from its settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from ingest.targets.azure_search.existing_index import ExistingIndexWriter
from ingest.targets.azure_search.index_update import IndexSpec
from ingest.uploads.service import UploadService, make_service
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.settings import SHARED_FOLDER, SettingsError, read_settings

SETTINGS = {
    "AZURE_SEARCH_ENDPOINT": "https://search",
    "AZURE_SEARCH_INDEX": "docs",
    "AZURE_UPLOADS_ENDPOINT": "https://uploads.blob.core.windows.net",
    "AZURE_UPLOADS_QUEUE_ENDPOINT": "https://uploads.queue.core.windows.net",
    "AZURE_UPLOADS_INDEX": "docs-uploads",
    "CHAT_MODEL": "demo",
    "MAX_UPLOAD_MEGABYTES": "3",
    "MAX_UPLOAD_PAGES": "7",
}
EMBEDDING = {
    "AZURE_OPENAI_ENDPOINT": "https://models",
    "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "embed",
}
# About the shared documents, and their index.
OF_DOCUMENTS = {
    "AZURE_SEARCH_FIELDS": '{"id": "key", "content": "text", "sourcepage": "url"}',
    "AZURE_SEARCH_PERMISSIONS": "user-token",
    "AZURE_SEARCH_KNOWLEDGE_BASE": "base",
    "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "mine",
    "AZURE_SEARCH_VECTORIZER": "true",
    "AZURE_STORAGE_ENDPOINT": "https://documents.blob.core.windows.net",
}
LIBRARIES = ("fastapi", "starlette", "uvicorn", "azurefunctions", "opentelemetry", "multipart")


def make(**more: str) -> UploadService:
    return make_service(read_settings({**SETTINGS, **more}))


def writer(service: UploadService) -> ExistingIndexWriter:
    index = service.make_index()
    assert isinstance(index, ExistingIndexWriter)
    return index


def test_uploads_have_an_index_and_limits_of_their_own() -> None:
    service = make()

    assert writer(service).index_spec == IndexSpec("docs-uploads", IndexFields())
    assert not writer(service).has_vectors
    assert service.source.container.client.container_name == "uploads"
    assert service.source.file_bytes == service.reader.limits.max_bytes == 3 * 2**20
    assert service.max_pages == 7


def test_vectors_are_written_with_an_embedding_model() -> None:
    assert writer(make(**EMBEDDING)).has_vectors


@pytest.mark.parametrize("more", [{}, EMBEDDING])
def test_settings_of_the_documents_change_nothing(more: Mapping[str, str]) -> None:
    plain, other = make(**more), make(**more, **OF_DOCUMENTS)

    assert writer(other).index_spec == writer(plain).index_spec
    assert writer(other).store_image is None
    assert other.enricher.fingerprint == plain.enricher.fingerprint


@pytest.mark.parametrize(
    "name",
    [
        "AZURE_UPLOADS_ENDPOINT",
        "AZURE_UPLOADS_QUEUE_ENDPOINT",
        "AZURE_UPLOADS_INDEX",
        "AZURE_SEARCH_ENDPOINT",
    ],
)
def test_missing_setting_is_named(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is required"):
        make(**{name: ""})


def test_index_of_the_documents_is_refused() -> None:
    with pytest.raises(SettingsError, match="must not be AZURE_SEARCH_INDEX"):
        make(AZURE_UPLOADS_INDEX="docs")


@pytest.mark.parametrize("name", ["AZURE_UPLOADS_ENDPOINT", "AZURE_UPLOADS_QUEUE_ENDPOINT"])
def test_token_goes_nowhere_without_tls(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be a URL such as https://host"):
        make(**{name: "http://uploads.blob.core.windows.net"})


def test_functions_import_no_web_server() -> None:
    code = """
import json, sys
from ingest.app.function_app import get_service
get_service()
print(json.dumps(list(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SHARED_FOLDER.parent), **SETTINGS, **EMBEDDING},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded: list[Any] = json.loads(done.stdout)

    assert "ingest.uploads.service" in loaded
    assert [name for name in loaded if name.partition(".")[0] in LIBRARIES] == []
    assert [name for name in loaded if name.startswith(("shared.http", "azure.cosmos"))] == []


def test_wrong_settings_are_logged_and_raised() -> None:
    code = "from ingest.app.function_app import get_service; get_service()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SHARED_FOLDER.parent), "UPLOADS": "maybe"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "uploads: nothing is read until the app's settings are right: UPLOADS" in done.stderr
