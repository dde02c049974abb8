"""The protocol of an index of uploads that several processes write to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ingest.targets.index_writer import IndexWriter


class UploadsIndex(IndexWriter, Protocol):
    """An index of uploads. The document of each is in a folder, whose name is the upload's id."""

    async def fingerprints_in(self, folder: str) -> Mapping[str, str]:
        """The fingerprint of each file in a folder. Raises DocumentRejected."""
        ...

    async def remove_folder(self, folder: str) -> None:
        """Remove all files of a folder. Raises DocumentRejected."""
        ...
