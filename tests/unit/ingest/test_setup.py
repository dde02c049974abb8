"""The fingerprint of the models, the prompt and the storage location."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from ingest.cli import suggest_embedding_model
from ingest.setup import (
    IngestOptions,
    build_enricher,
    get_embedding_dimensions,
    warn_about_other_folder,
)
from shared.bootstrap.clients import Clients
from shared.retrieval.sqlite.schema import IndexMeta
from shared.settings import SettingsError, read_settings
from tests.support.sqlite_writer import update_index

SEEING = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_CHAT_MODEL": "gpt-4o"}
BLIND: Mapping[str, str] = {}


def fingerprint(settings: Mapping[str, str], words: str = "What is it?") -> str:
    async def go() -> str:
        clients = Clients(read_settings(settings))
        try:
            return build_enricher(clients, words).fingerprint
        finally:
            await clients.close()

    return asyncio.run(go())


def test_fingerprint_depends_on_the_prompt() -> None:
    assert fingerprint(SEEING) == fingerprint(SEEING)
    assert fingerprint(SEEING) != fingerprint(SEEING, "Who is it?")


def test_unused_settings_do_not_change_the_fingerprint() -> None:
    storage = {"AZURE_STORAGE_ENDPOINT": "https://mine.blob.core.windows.net"}

    assert fingerprint(BLIND) == fingerprint(BLIND, "Who is it?") == fingerprint(storage)


def test_settings_for_vectors_fit_the_endpoint() -> None:
    search = {"AZURE_SEARCH_ENDPOINT": "https://a", "AZURE_SEARCH_INDEX": "docs1"}
    address = {"AZURE_OPENAI_ENDPOINT": "https://a.openai.azure.com"}
    azure = search | address | {"AZURE_OPENAI_CHAT_DEPLOYMENT": "chat"}
    embedded, local, remote, other = (
        suggest_embedding_model(read_settings(settings))
        for settings in ({}, search, azure, search | SEEING)
    )

    assert 'such as\nthe built-in one, then index again:\n    "EMBEDDINGS": "builtin"' in embedded
    assert '"AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "' in remote
    assert '"OPENAI_EMBEDDING_BASE_URL": "http://localhost:11434/v1"' in local
    assert "such as\nOllama's, then" in local
    assert "BASE_URL" not in other
    assert "one of your endpoint" in other


def test_embedding_model_that_does_not_answer_is_named() -> None:
    unreachable = read_settings(SEEING | {"OPENAI_EMBEDDING_MODEL": "nomic"})

    assert asyncio.run(get_embedding_dimensions(read_settings(SEEING))) == 0
    with pytest.raises(SettingsError) as failure:
        asyncio.run(get_embedding_dimensions(unreachable))
    assert failure.value.problems[0].startswith("nomic gives no vectors (")


def test_run_over_another_folder_is_warned_of_and_over_the_same_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, folder = tmp_path / "index.db", tmp_path / "documents"
    asyncio.run(update_index(index, {}, IndexMeta(folder)))
    settings = read_settings({"INDEX_FILE": str(index)})
    warn_about_other_folder(settings, IngestOptions(folder))
    warn_about_other_folder(settings, IngestOptions(tmp_path, prune=True))
    same = capsys.readouterr().out
    warn_about_other_folder(settings, IngestOptions(tmp_path))

    assert same == ""
    assert capsys.readouterr().out.startswith(f"index.db was made from {folder}: ")
