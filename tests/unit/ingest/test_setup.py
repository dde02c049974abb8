"""The fingerprint of the models, the prompt and the storage location."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from shared.bootstrap.clients import Clients
from shared.ingest.setup import build_enricher
from shared.settings import read_settings

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
