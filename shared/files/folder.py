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
from shared.files.base import CHANGED, File, Pieces

PIECE = 64 * 1024  # bytes that are read at once

_ABSENT = (ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EINVAL)


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """The files below `top`."""

    top: Path
    name: ClassVar[str] = "folder"

    async def ready(self) -> None:
        """See that it is there. Raises Misconfigured."""
        if not await asyncio.to_thread(self.top.is_dir):
            raise Misconfigured(cause="content: the documents' folder is not there")

    async def open(self, name: str) -> File:
        """The file of that name. Raises NotFound, Unavailable, Misconfigured."""
        return await asyncio.to_thread(self._open, name)

    def _open(self, name: str) -> File:
        with _map_errors():
            whole = self.top.resolve()
            path = whole / name
            # Who may open it was asked for this very name: a link's target may have other readers.
            if path.resolve(strict=True) != path or path.relative_to(whole).as_posix() != name:
                raise NotFound(cause="content: a link, or another spelling of a name")
            if not path.is_file():  # nor a pipe, which would be waited for
                raise NotFound
            return _described(path)


@dataclass(frozen=True, slots=True)
class IndexFolderFiles:
    """The files below whichever folder `where` names at the time, as an index does of its own."""

    where: Callable[[], Path | None]
    name: ClassVar[str] = "folder"

    async def ready(self) -> None:
        """See that it can be told. An index from elsewhere has no folder. Raises ChatErrors."""
        await asyncio.to_thread(self.where)

    async def open(self, name: str) -> File:
        """The file of that name. Raises NotFound, Unavailable, Misconfigured."""
        top = await asyncio.to_thread(self.where)
        if top is None:
            raise NotFound
        return await FolderFiles(top).open(name)


def _described(path: Path) -> File:
    state = path.stat()
    etag = f'"{state.st_mtime_ns:x}-{state.st_size:x}"'
    return File(state.st_size, etag, state.st_mtime, partial(_pieces, path, etag))


async def _pieces(path: Path, etag: str, start: int, stop: int) -> Pieces:
    # The file is opened for each piece: nothing is held while a slow client takes one.
    while start < stop:
        size = min(PIECE, stop - start)
        piece = await asyncio.to_thread(_piece, path, etag, start, size)
        start += len(piece)
        yield piece


def _piece(path: Path, etag: str, start: int, size: int) -> bytes:
    with _map_errors(), path.open("rb", buffering=0) as opened:
        if _described(path).etag != etag:
            raise Unavailable(CHANGED)
        opened.seek(start)
        piece = opened.read(size)
    if not piece:
        raise Unavailable(CHANGED)
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
        if isinstance(error, OSError) and number not in _ABSENT:
            raise Unavailable(cause=cause) from None
        raise NotFound from None
