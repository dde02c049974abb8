"""All that is stored of a user is deleted by one command, and nothing of others."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scripts.forget import main
from shared.memory.base import Memory, PageRequest, Turn
from shared.memory.sqlite.store import open_memory
from tests.support.uploads import UploadsFolder

pytestmark = pytest.mark.part("memory-file")


async def fill(memory: Memory) -> None:
    for owner, count in (("anna", 230), ("ben", 2)):
        for number in range(count):
            conversation = await memory.conversations.create(owner, f"{owner} {number}")
        await memory.interactions.add(owner, conversation.id, Turn(f"secret of {owner}"))
    await memory.close()


async def names(memory: Memory, owner: str) -> list[str]:
    page = await memory.conversations.list(owner, PageRequest(0, 1000))
    await memory.close()
    return [each.name for each in page]


def command(stores: Path, *arguments: str, **settings: str) -> int:
    """Run the command over the stores of a test, never over those of this folder's settings."""
    none = {"MEMORY_FILE": "", "AZURE_COSMOS_ENDPOINT": ""}
    uploads = {"UPLOADS_FOLDER": str(stores / "uploads")}
    return main(arguments, none | uploads | settings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    asyncio.run(fill(open_memory(path)))
    return path


def test_a_user_is_forgotten_and_others_stay(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(path.parent, "anna", "--yes", MEMORY_FILE=str(path)) == 0
    assert "230 conversations of anna are deleted." in capsys.readouterr().out

    assert asyncio.run(names(open_memory(path), "anna")) == []
    assert asyncio.run(names(open_memory(path), "ben")) == ["ben 1", "ben 0"]
    content = b"".join(each.read_bytes() for each in path.parent.glob("memory.db*"))
    assert b"secret of anna" not in content
    assert b"secret of ben" in content


def test_without_yes_conversations_are_counted(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(path.parent, "anna", MEMORY_FILE=str(path)) == 0
    printed = capsys.readouterr().out

    assert "230 conversations of anna are stored." in printed
    assert "--yes" in printed
    assert len(asyncio.run(names(open_memory(path), "anna"))) == 230


def test_without_a_store_the_command_says_what_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, "anna", "--yes") == 2
    assert "set MEMORY_FILE" in capsys.readouterr().err


def test_a_failure_says_that_the_command_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "other.db"
    foreign.write_text("no database" * 100)

    assert command(tmp_path, "anna", "--yes", MEMORY_FILE=str(foreign)) == 1
    assert "run the command again" in capsys.readouterr().err


@pytest.mark.part("uploads")
def test_uploads_of_a_user_are_removed_from_the_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = UploadsFolder(tmp_path / "uploads")
    for owner in ("anna", "ben"):
        folder.add(owner, f"{owner}.md", f"secret of {owner}")
    folder.run()

    assert command(tmp_path, "anna") == 0
    assert "1 uploads of anna are stored." in capsys.readouterr().out
    assert folder.search("anna", "secret") == ["secret of anna"]
    assert command(tmp_path, "anna", "--yes") == 0
    assert "1 uploads of anna are deleted." in capsys.readouterr().out
    content = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"secret of anna" not in content
    assert folder.search("anna", "secret") == []
    assert folder.search("ben", "secret") == ["secret of ben"]


@pytest.mark.part("uploads")
def test_upload_whose_record_is_damaged_is_removed_from_the_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = UploadsFolder(tmp_path / "uploads")
    upload = folder.add("anna", "anna.md", "secret of anna")
    folder.run()
    next(folder.root.glob(f"*/{upload.id}/record.json")).write_text("{")

    assert command(tmp_path, "anna", "--yes") == 0
    assert "1 uploads of anna are deleted." in capsys.readouterr().out
    assert folder.folders() == set()


@pytest.mark.part("uploads")
def test_uploads_are_hidden_even_if_their_files_cannot_be_removed_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = UploadsFolder(tmp_path / "uploads")
    folder.add("anna", "anna.md", "secret of anna")
    folder.run()
    with closing(sqlite3.connect(folder.root / "index.db.lock")) as other:  # the app's process
        other.execute("BEGIN EXCLUSIVE")
        assert command(tmp_path, "anna", "--yes") == 0

    assert "removes their files at its next start" in capsys.readouterr().err
    assert folder.search("anna", "secret") == []


@pytest.mark.part("azure-uploads")
def test_address_of_uploads_must_be_that_of_blobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in ("mine", "http://mine.blob.core.windows.net", "https://mine.queue.core.windows.net"):
        assert command(tmp_path, "anna", "--uploads", url) == 2
        assert "such as https://mine.blob.core.windows.net" in capsys.readouterr().err
