"""The protocol of the place where uploads are, as what indexes them sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from shared.uploads.base import Upload
from shared.uploads.records import Result


class UploadSource(Protocol):
    """The place of the files and the records. All methods may raise ChatErrors and OSErrors."""

    async def read_result(self, upload: Upload) -> Result:
        """Return what became of an upload."""
        ...

    async def write_result(self, upload: Upload, result: Result) -> None:
        """Store what became of an upload. Raises FileNotFoundError if a folder is removed."""
        ...

    def open_file(self, upload: Upload) -> AbstractAsyncContextManager[Path]:
        """Provide the file on this machine, until the block ends.

        Its name has the suffix of the upload's. Raises FileNotFoundError if it is removed.
        """
        ...

    async def list_owner(self, upload: Upload) -> Sequence[Upload]:
        """Return the uploads of the same owner, without those that are deleted."""
        ...

    async def mark_deleted(self, upload: Upload) -> None:
        """Hide an upload from now on, until it is removed."""
        ...
