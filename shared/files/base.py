"""The seam behind which the files of citations lie: a folder, a container, anything that opens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

TIMEOUT_MESSAGE = "The document could not be opened in time. Try again."
CHANGED_MESSAGE = "The document has just changed. Ask for it again."

FileChunks = AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class File:
    """A file that can be read. `size` is in bytes, `modified` in seconds since 1970.

    `etag` is as it stands in the header, in quotes, and changes with every change of the bytes.
    `read(start, stop)` gives these bytes in pieces, and opens nothing before the first is asked
    for. It raises a ChatError, also where the file has changed since.
    """

    size: int
    etag: str
    modified: float
    read: Callable[[int, int], FileChunks]


class Files(Protocol):
    """Opens files by their names: paths from the top folder, with `/`."""

    @property
    def name(self) -> str:
        """What `/health` calls it."""
        ...

    async def ready(self) -> None:
        """Ask whether it would open files. Raises the ChatError that stands against it."""
        ...

    async def open(self, name: str) -> File:
        """The file of that very name. Raises NotFound, Unavailable, Misconfigured."""
        ...
