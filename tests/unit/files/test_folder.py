"""The files of a folder: only those inside it, by their exact names, as they were opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.domain.errors import Misconfigured, NotFound, Unavailable
from shared.files.base import File
from shared.files.folder import CHUNK_BYTES, FolderFiles, IndexFolderFiles

DATA = bytes(range(256)) * 1000  # several chunks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "documents"
    (root / "plans").mkdir(parents=True)
    (root / "plans" / "a.md").write_bytes(DATA)
    (tmp_path / "secret.md").write_bytes(b"secret")
    return root


async def read(file: File, start: int, stop: int) -> bytes:
    return b"".join([chunk async for chunk in file.read(start, stop)])


@pytest.mark.parametrize(("start", "stop"), [(0, len(DATA)), (7, CHUNK_BYTES + 9), (5, 5)])
def test_part_of_a_file_is_read(folder: Path, start: int, stop: int) -> None:
    async def open_and_read() -> tuple[int, bytes]:
        file = await FolderFiles(folder).open("plans/a.md")
        return file.size, await read(file, start, stop)

    assert asyncio.run(open_and_read()) == (len(DATA), DATA[start:stop])


@pytest.mark.parametrize(
    "name",
    ["../secret.md", "plans/../plans/a.md", "plans//a.md", "./plans/a.md", "plans", "b.md", "a\0b"],
)
def test_other_name_is_not_found(folder: Path, name: str) -> None:
    with pytest.raises(NotFound):
        asyncio.run(FolderFiles(folder).open(name))


def test_link_is_not_found(folder: Path) -> None:
    (folder / "inside.md").symlink_to(folder / "plans" / "a.md")
    (folder / "outside.md").symlink_to(folder.parent / "secret.md")

    for name in ("inside.md", "outside.md", str(folder.parent / "secret.md")):
        with pytest.raises(NotFound):
            asyncio.run(FolderFiles(folder).open(name))


@pytest.mark.parametrize(
    "change", [lambda path: path.write_bytes(b"other"), Path.unlink], ids=["changed", "removed"]
)
def test_file_that_changes_while_it_is_read_is_not_mixed(
    folder: Path, change: Callable[[Path], object]
) -> None:
    async def read_changed() -> None:
        file = await FolderFiles(folder).open("plans/a.md")
        stream = file.read(0, len(DATA))
        await anext(stream)
        change(folder / "plans" / "a.md")
        await anext(stream)

    with pytest.raises((Unavailable, NotFound)):
        asyncio.run(read_changed())


def test_missing_folder_is_misconfigured(folder: Path) -> None:
    asyncio.run(FolderFiles(folder).ready())
    with pytest.raises(Misconfigured):
        asyncio.run(FolderFiles(folder / "missing").ready())


def test_folder_of_the_index_may_be_unknown(folder: Path) -> None:
    opened = asyncio.run(IndexFolderFiles(lambda: folder).open("plans/a.md"))

    assert opened.size == len(DATA)
    with pytest.raises(NotFound):
        asyncio.run(IndexFolderFiles(lambda: None).open("plans/a.md"))
