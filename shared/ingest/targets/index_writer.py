"""The seam behind which documents are kept: an index that they are put into, file by file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shared.ingest.splitting.passages import Passage

UNFINISHED = ""
"""The fingerprint of a file that was not put whole: a run puts it again."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's passages. `name` is its path from the folder, with `/`.

    `fingerprint` changes with whatever the passages are made of. `vectors` has one for each
    passage, and is None without an embedding model.
    """

    name: str
    fingerprint: str
    passages: tuple[Passage, ...]
    vectors: tuple[Sequence[float], ...] | None = None


class DocumentRejected(Exception):
    """An index did not take a file; the message is a sentence without the file's name."""


class IndexUnavailable(DocumentRejected):
    """The index takes no file at all for now: it ends the run. The message says what to do."""


class IndexWriter(Protocol):
    """An index that documents are written to. One run uses it, with one call at a time.

    An interrupted run leaves an index that answers; `fingerprints` tells the next run which files
    are complete.
    """

    @property
    def name(self) -> str:
        """What the summary calls it."""
        ...

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file that it holds anything of, by the file's name."""
        ...

    async def restricted_files(self) -> Set[str]:
        """The names of the files with passages that only some users may see. Changes nothing."""
        ...

    async def put(self, document: Document, path: Path) -> None:
        """Replace all that it holds of a file, which lies at `path`. Raises Refused."""
        ...

    async def remove(self, name: str) -> None:
        """Forget a file. Raises Refused."""
        ...

    async def finish(self) -> None:
        """Make what was put and removed visible to questions."""
        ...

    async def close(self) -> None:
        """Give up what it holds open; what was not finished may stay for the next run."""
        ...
