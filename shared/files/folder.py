"""The files of a folder on this machine. No link in it is followed, wherever it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EACCES, EINVAL, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM
from functools import partial
from pathlib import Path
from typing import ClassVar

from shared.chat.errors import ChatError, Misconfigured, NotFound, Unavailable
from shared.files.base import CHANGED_MESSAGE, File, FileChunks

CHUNK_BYTES = 64 * 1024  # bytes that are read at once

_NOT_FOUND_ERRNOS = (ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL)


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files below `root`."""

    root: Path
    name: ClassVar[str] = "folder"

    async def ready(self) -> None:
        """See that it is there. Raises Misconfigured."""
        if not await asyncio.to_thread(self.root.is_dir):
            raise Misconfigured(cause="content: the documents' folder is not there")

    async def open(self, name: str) -> File:
        """The file of that name. Raises NotFound, Unavailable, Misconfigured."""
        return await asyncio.to_thread(self._open, name)

    def _open(self, name: str) -> File:
        with _map_errors():
            whole = self.root.resolve()
            path = whole / name
            # Who may open it was asked for this very name: a link's target may have other readers.
            if path.resolve(strict=True) != path or path.relative_to(whole).as_posix() != name:
                raise NotFound(cause="content: a link, or another spelling of a name")
            if not path.is_file():  # nor a pipe, which would be waited for
                raise NotFound
            return _stat_file(path)


@dataclass(frozen=True, slots=True)
class IndexFolderFiles:
    """The files of the folder that `get_root` returns, called anew for each file."""

    get_root: Callable[[], Path | None]
    name: ClassVar[str] = "folder"

    async def ready(self) -> None:
        """See that it can be told. An index from elsewhere has no folder. Raises ChatErrors."""
        await asyncio.to_thread(self.get_root)

    async def open(self, name: str) -> File:
        """The file of that name. Raises NotFound, Unavailable, Misconfigured."""
        top = await asyncio.to_thread(self.get_root)
        if top is None:
            raise NotFound
        return await FolderFiles(top).open(name)


def _stat_file(path: Path) -> File:
    state = path.stat()
    etag = f'"{state.st_mtime_ns:x}-{state.st_size:x}"'
    return File(state.st_size, etag, state.st_mtime, partial(_read_chunks, path, etag))


async def _read_chunks(path: Path, etag: str, start: int, stop: int) -> FileChunks:
    # The file is opened for each piece: nothing is held while a slow client takes one.
    while start < stop:
        size = min(CHUNK_BYTES, stop - start)
        piece = await asyncio.to_thread(_read_chunk, path, etag, start, size)
        start += len(piece)
        yield piece


def _read_chunk(path: Path, etag: str, start: int, size: int) -> bytes:
    with _map_errors(), path.open("rb", buffering=0) as opened:
        if _stat_file(path).etag != etag:
            raise Unavailable(CHANGED_MESSAGE)
        opened.seek(start)
        piece = opened.read(size)
    if not piece:
        raise Unavailable(CHANGED_MESSAGE)
    return piece


@contextmanager
def _map_errors() -> Iterator[None]:
    """What the system says, as errors of ours: its words name the machine's paths."""
    try:
        yield
    except ChatError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        number = getattr(error, "errno", None)
        cause = f"content: {type(error).__name__} {number}"
        if number in (EACCES, EPERM):
            raise Misconfigured(cause=f"{cause}: may the app read the folder?") from None
        if isinstance(error, OSError) and number not in _NOT_FOUND_ERRNOS:
            raise Unavailable(cause=cause) from None
        raise NotFound from None
