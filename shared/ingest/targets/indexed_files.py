"""A Target whose files go into Blob storage too, where citations are opened from."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from shared.files.media_types import guess_media_type
from shared.ingest.splitting.passages import key_of
from shared.ingest.targets.azure_search.writer import AzureSearchWriter
from shared.ingest.targets.blob_upload import Uploads
from shared.ingest.targets.index_writer import UNFINISHED, Document


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """An index in Azure AI Search with its files in a container, which it has for itself.

    A file is there before its passages and pictures are, and goes after them: no citation leads
    nowhere, and a file that is there alone tells the next run what is left to do. `held` are the
    files that the container had when `known` looked.
    """

    index: AzureSearchWriter
    files: Uploads
    name: str = "Azure AI Search"
    held: set[str] = field(default_factory=set, init=False)

    async def known(self) -> Mapping[str, str]:
        """The fingerprint of each file. Makes the container and the index first. Raises Refused.

        A file of the container that the index does not know is what a broken run left.
        """
        await self.files.ensure()
        found = await self.index.known()
        self.held.update(await self.files.names())
        return {**dict.fromkeys(self.held, UNFINISHED), **found}

    async def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see. Raises Refused."""
        return await self.index.restricted_files()

    async def put(self, document: Document, path: Path) -> None:
        """Upload a file, then replace its passages and pictures. Raises Refused."""
        if not document.passages:
            return await self.remove(document.name)
        await self.files.put(document.name, path, guess_media_type(document.name))
        if document.name in self.held:
            # Before the index calls the file whole: nobody would look for them after that.
            keep = {passage.id for passage in document.passages if passage.image}
            await self.files.remove_pictures(_pictures(document.name), keep)
        await self.index.put(document, path)

    async def remove(self, name: str) -> None:
        """Delete a file's passages, then its pictures and the file. Raises Refused."""
        await self.index.remove(name)
        await self.files.remove_pictures(_pictures(name))
        await self.files.remove(name)

    async def finish(self) -> None:
        """Nothing is left to do."""
        await self.index.finish()

    async def close(self) -> None:
        """Close the connections."""
        await self.index.close()
        await self.files.close()


def _pictures(name: str) -> str:
    """What the ids of all pictures of a file begin with."""
    return f"{key_of(name)}-"
