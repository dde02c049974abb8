"""An IndexWriter that also uploads the files to Blob storage, where citations open them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

from shared.files.media_types import guess_media_type
from shared.ingest.splitting.passages import id_prefix
from shared.ingest.targets.azure_search.writer import AzureSearchWriter
from shared.ingest.targets.blob_upload import BlobUploader
from shared.ingest.targets.index_writer import UNFINISHED, Document


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """An index in Azure AI Search, and a Blob container that holds only its files and images.

    A file is uploaded before its passages and images and deleted after them, so no citation is
    broken, and a file without passages tells the next run what is unfinished. `existing_files` are
    the files of the container when `fingerprints` was called.
    """

    index: AzureSearchWriter
    files: BlobUploader
    name: str = "Azure AI Search"
    existing_files: set[str] = field(default_factory=set, init=False)

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file. Creates the container and the index first.

        A file that is only in the container is unfinished. Raises DocumentRejected.
        """
        await self.files.ensure_container()
        indexed = await self.index.fingerprints()
        self.existing_files.update(await self.files.list_names())
        return {**dict.fromkeys(self.existing_files, UNFINISHED), **indexed}

    async def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see. Raises DocumentRejected."""
        return await self.index.restricted_files()

    async def put(self, document: Document, path: Path) -> None:
        """Upload a file, then replace its passages and images. Raises DocumentRejected."""
        if not document.passages:
            return await self.remove(document.name)
        await self.files.put(document.name, path, guess_media_type(document.name))
        if document.name in self.existing_files:
            # Before the index marks the file as complete: later no run would remove them.
            keep = {passage.id for passage in document.passages if passage.image}
            await self.files.remove_images(_image_prefix(document.name), keep)
        await self.index.put(document, path)

    async def remove(self, name: str) -> None:
        """Delete a file's passages, then its images and the file. Raises DocumentRejected."""
        await self.index.remove(name)
        await self.files.remove_images(_image_prefix(name))
        await self.files.remove(name)

    async def finish(self) -> None:
        """Finish the index."""
        await self.index.finish()

    async def close(self) -> None:
        """Close the connections."""
        await self.index.close()
        await self.files.close()


def _image_prefix(name: str) -> str:
    """The prefix of the ids of a file's images."""
    return f"{id_prefix(name)}-"
