"""The interface of file stores: the files that citations refer to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shared.domain.events import ByteStream

TIMEOUT_MESSAGE = "The document could not be opened in time. Try again."
CHANGED_MESSAGE = "The document has changed while it was read. Try again."


@dataclass(frozen=True, slots=True)
class File:
    """A readable file."""

    size: int  # in bytes
    etag: str  # the value of the header, with quotes; it changes with the content
    modified: float  # in seconds since 1970
    # Yields the bytes from a start to a stop in chunks, and opens nothing before the first one.
    # Raises ChatErrors, also if the file has changed since it was opened.
    read: Callable[[int, int], ByteStream]


class Files(Protocol):
    """Opens files by name: the path from the root folder, with `/`."""

    @property
    def name(self) -> str:
        """The name of the store in `/health`."""
        ...

    async def ready(self) -> None:
        """Check that the store is available. Raises ChatErrors."""
        ...

    async def open(self, name: str) -> File:
        """Open the file of exactly this name. Raises NotFound, Unavailable, Misconfigured."""
        ...
