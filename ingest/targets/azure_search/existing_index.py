"""Writes folders to an index of Azure AI Search that exists, with access to its documents alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ingest.targets.azure_search.writer import AzureSearchWriter
from ingest.targets.index_writer import Document
from shared.domain.events import encode_path
from shared.retrieval.azure_search.index_fields import quote

FIND_SECONDS = 30  # for searches to find what was written
AFTER_SLASH = chr(ord("/") + 1)


@dataclass(slots=True)
class ExistingIndexWriter(AzureSearchWriter):
    """An IndexWriter for an index that several processes write to, each other folders of it.

    It neither reads nor changes the definition of the index: the role Search Index Data Contributor
    is enough. Other than that of `make index`, `finish` waits until searches find the document that
    was put last.
    """

    _put: Document | None = field(default=None, init=False)

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file. Raises DocumentRejected."""
        return await self.read_fingerprints(f"{self.index_spec.fields.sourcefile} ne null")

    async def fingerprints_in(self, folder: str) -> Mapping[str, str]:
        """The fingerprint of each file in a folder. Raises DocumentRejected."""
        return await self.read_fingerprints(self._is_in(folder))

    async def remove_folder(self, folder: str) -> None:
        """Remove all files of a folder. Raises DocumentRejected."""
        await self.remove_passages(await self.read_marks(self._is_in(folder)))

    async def put(self, document: Document, path: Path) -> None:
        """Replace all passages of a file; `path` is not read. Raises DocumentRejected."""
        await AzureSearchWriter.put(self, document, path)
        self._put = document if document.passages else None

    async def finish(self) -> None:
        """Wait until searches find what was put last. Raises DocumentRejected."""
        document, self._put = self._put, None
        if document is None:
            return
        condition = f"{self.index_spec.fields.sourcefile} eq {quote(encode_path(document.name))}"
        for _ in range(FIND_SECONDS):
            found = await self.read_fingerprints(condition)
            if found.get(document.name) == document.fingerprint:
                return
            await self.retry_policy.sleep(1)

    def _is_in(self, folder: str) -> str:
        """The condition that a passage is in a folder, by the order of the paths."""
        name, path = self.index_spec.fields.sourcefile, encode_path(folder)
        return f"{name} gt {quote(f'{path}/')} and {name} lt {quote(path + AFTER_SLASH)}"
