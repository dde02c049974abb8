"""Reads files from a local folder, without following links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EACCES, EINVAL, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM
from functools import partial
from pathlib import Path
from typing import ClassVar

from shared.domain.errors import Misconfigured, NotFound, Unavailable
from shared.domain.events import ByteStream
from shared.files.base import CHANGED_MESSAGE, File

CHUNK_BYTES = 64 * 1024  # of one read

_NOT_FOUND_ERRNOS = (ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL)


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files in a folder."""

    root: Path
    name: ClassVar[str] = "folder"

    async def ready(self) -> None:
        """Check that the folder exists. Raises Misconfigured."""
        if not await asyncio.to_thread(self.root.is_dir):
            raise Misconfigured(cause="content: the documents' folder is not there")

    async def open(self, name: str) -> File:
        """Open the file of that name. Raises NotFound, Unavailable, Misconfigured."""
        return await asyncio.to_thread(self._open, name)

    def _open(self, name: str) -> File:
        with _map_errors():
            root = _resolve(self.root)
            path = root / name
            # Access was checked for this exact name: a link's target may have other permissions.
            if _resolve(path) != path or not _is_spelling(name, path, root):
                raise NotFound(cause="content: a link, or another spelling of a name")
            if not path.is_file():  # opening a pipe would block
                raise NotFound
            return _stat_file(path)


@dataclass(frozen=True, slots=True)
class IndexFolderFiles:
    """The files of a folder that may change."""

    get_root: Callable[[], Path | None]  # is called for each file
    name: ClassVar[str] = "folder"

    async def ready(self) -> None:
        """Check that the folder can be determined. Raises ChatErrors."""
        await asyncio.to_thread(self.get_root)

    async def open(self, name: str) -> File:
        """Open the file of that name. Raises NotFound, Unavailable, Misconfigured."""
        root = await asyncio.to_thread(self.get_root)
        if root is None:
            raise NotFound
        return await FolderFiles(root).open(name)


def _resolve(path: Path) -> Path:
    """Return a path without links. Raises NotFound for an impossible one, and OSError."""
    try:
        return path.resolve(strict=True)
    except (RuntimeError, ValueError):  # a loop of links, a null character
        raise NotFound from None


def _is_spelling(name: str, path: Path, root: Path) -> bool:
    """Whether `name` is exactly the path of a file within a folder."""
    return path.is_relative_to(root) and path.relative_to(root).as_posix() == name


def _stat_file(path: Path) -> File:
    state = path.stat()
    etag = f'"{state.st_mtime_ns:x}-{state.st_size:x}"'
    return File(state.st_size, etag, state.st_mtime, partial(_read_chunks, path, etag))


async def _read_chunks(path: Path, etag: str, start: int, stop: int) -> ByteStream:
    # The file is opened for each chunk: no handle is held for a slow client.
    while start < stop:
        size = min(CHUNK_BYTES, stop - start)
        chunk = await asyncio.to_thread(_read_chunk, path, etag, start, size)
        start += len(chunk)
        yield chunk


def _read_chunk(path: Path, etag: str, start: int, size: int) -> bytes:
    with _map_errors(), path.open("rb", buffering=0) as file:
        if _stat_file(path).etag != etag:
            raise Unavailable(CHANGED_MESSAGE)
        file.seek(start)
        chunk = file.read(size)
    if not chunk:
        raise Unavailable(CHANGED_MESSAGE)
    return chunk


@contextmanager
def _map_errors() -> Iterator[None]:
    """Map errors of the file system to ChatErrors, without their text, which has local paths."""
    try:
        yield
    except OSError as error:
        number = error.errno
        cause = f"content: {type(error).__name__} {number}"
        if number in (EACCES, EPERM):
            raise Misconfigured(cause=f"{cause}: may the app read the folder?") from None
        if number not in _NOT_FOUND_ERRNOS:
            raise Unavailable(cause=cause) from None
        raise NotFound from None
