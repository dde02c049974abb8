"""Opens what version 0.1.0 stored: the embedded index, conversations in a file and in Cosmos DB.

The files were written by that version and never change. A later version reads them, or its change
is named in docs/upgrade.md.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from shared.bootstrap.build import build
from shared.memory.base import Memory, PageRequest, Turn
from shared.memory.sqlite.store import open_memory
from shared.settings import read_settings
from tests.support.calls import QUESTION, Client
from tests.support.fake_cosmos import FakeCosmos, open_cosmos_memory, run_cosmos

FILES = Path(__file__).parent.parent / "support" / "golden" / "0.1.0"
TURNS = [
    Turn("And in the first year?", "", "20 days.", "chat"),
    Turn("How long is the vacation?", "", "30 days.", "chat"),
]


def copy(name: str, folder: Path) -> Path:
    return Path(shutil.copy(FILES / name, folder))


def test_index_of_the_first_version_answers(tmp_path: Path) -> None:
    settings = {"INDEX_FILE": str(copy("documents.sqlite", tmp_path)), "CALLERS": "anyone"}
    client = Client(build(read_settings(settings)))
    question = {"messages": [{"role": "user", "content": "How many days of vacation?"}]}
    reply = client("POST", "/chat", {**QUESTION, **question})

    assert reply.status == 200, reply.data
    assert "Employees have 30 days of vacation a year." in reply.json["message"]["content"]
    assert client("GET", "/health").json["status"] == "ok"


async def read_and_continue(memory: Memory, owner: str) -> list[Any]:
    """Return what the first version stored, after another turn was added to it."""
    (conversation,) = await memory.conversations.list(owner, PageRequest())
    stored = await memory.interactions.list(owner, conversation.id, PageRequest())
    await memory.interactions.add(owner, conversation.id, Turn("More?", "", "No.", "chat"))
    (newest, *_) = await memory.interactions.list(owner, conversation.id, PageRequest())
    turns = [interaction.turn for interaction in stored]
    return [conversation.name, turns, newest.turn.response]


def test_conversations_of_the_first_version_continue_in_a_file(tmp_path: Path) -> None:
    async def work() -> list[Any]:
        memory = open_memory(copy("conversations.sqlite", tmp_path))
        try:
            return await read_and_continue(memory, "local")
        finally:
            await memory.close()

    assert asyncio.run(work()) == ["Vacation", TURNS, "No."]


@pytest.mark.part("opensearch")
def test_pipelines_of_the_first_version_are_found(tmp_path: Path) -> None:
    async def of_file() -> Any:
        memory = open_memory(copy("conversations.sqlite", tmp_path))
        try:
            return await memory.pipelines.all()
        finally:
            await memory.close()

    async def of_cosmos() -> Any:
        async with open_cosmos_memory(fake) as memory:
            return await memory.pipelines.all()

    with run_cosmos() as fake:
        fill(fake)
        found = [asyncio.run(of_file()), asyncio.run(of_cosmos())]

    assert found == [{"rag": {"description": "ours"}}] * 2


def fill(fake: FakeCosmos) -> None:
    for item in json.loads((FILES / "conversations.json").read_text("utf-8")):
        fake.fill(item)


def test_conversations_of_the_first_version_continue_in_cosmos_db() -> None:
    async def work() -> list[Any]:
        async with open_cosmos_memory(fake) as memory:
            return await read_and_continue(memory, "anna")

    with run_cosmos() as fake:
        fill(fake)
        assert asyncio.run(work()) == ["Vacation", TURNS, "No."]
