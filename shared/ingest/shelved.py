"""A Target whose files go into Blob storage too, where citations are opened from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.content.kinds import kind
from shared.ingest.azure import AzureTarget
from shared.ingest.blobs import Uploads
from shared.ingest.split import key_of
from shared.ingest.target import Document


@dataclass(frozen=True, slots=True)
class Shelved:
    """An index in Azure AI Search with its files in a container.

    A file is there before its passages are, and goes after them: no citation leads nowhere.
    """

    index: AzureTarget
    files: Uploads
    name: str = "Azure AI Search"

    async def known(self) -> Mapping[str, str]:
        """The fingerprint of each file. Makes the container and the index first. Raises Refused."""
        await self.files.ensure()
        return await self.index.known()

    async def put(self, document: Document, path: Path) -> None:
        """Upload a file, then replace its passages. Raises Refused."""
        if document.passages:
            await self.files.put(document.name, path, kind(document.name))
        await self.index.put(document, path)

    async def remove(self, name: str) -> None:
        """Delete a file's passages, then the file and its pictures. Raises Refused."""
        await self.index.remove(name)
        await self.files.remove(name)
        await self.files.remove_pictures(f"{key_of(name)}-")

    async def finish(self) -> None:
        """Nothing is left to do."""
        await self.index.finish()

    async def close(self) -> None:
        """Close the connections."""
        await self.index.close()
        await self.files.close()
