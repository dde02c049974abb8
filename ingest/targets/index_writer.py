"""The seam of the indexes that documents are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ingest.splitting.passages import Passage

UNFINISHED = ""
"""The fingerprint of a file that was not written completely: the next run writes it again."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's passages."""

    name: str  # its path from the folder, with `/`
    fingerprint: str  # changes with the inputs of the passages
    passages: tuple[Passage, ...]
    # One for each passage; None without an embedding model
    vectors: tuple[Sequence[float], ...] | None = None


class DocumentRejected(Exception):
    """An index rejected a file; the message is a sentence without the file's name."""


class RequestRejected(DocumentRejected):
    """The index rejected a whole request, which may be the fault of its definition."""


class IndexUnavailable(DocumentRejected):
    """The index accepts no file at all, which ends the run. The message says what to do."""


class IndexWriter(Protocol):
    """An index that documents are written to. One run uses it, with one call at a time.

    An interrupted run leaves an index that answers; `fingerprints` tells the next run which files
    are complete.
    """

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file with any data in the index, by the file's name."""
        ...

    async def restricted_files(self) -> Set[str]:
        """The names of the files with passages that only some users may see. Changes nothing."""
        ...

    async def put(self, document: Document, path: Path) -> None:
        """Replace all passages of a file, which is at `path`. Raises DocumentRejected."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a file. Raises DocumentRejected."""
        ...

    async def finish(self) -> None:
        """Make the changes visible to searches."""
        ...

    async def close(self) -> None:
        """Release all resources; unfinished changes may stay for the next run."""
        ...
