"""The uploads of a container in Azure, as what indexes them sees it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ingest.document import UnreadableDocument, too_large_message
from shared.domain.errors import NotFound, Unavailable
from shared.files.base import File
from shared.uploads.base import Upload
from shared.uploads.blob.layout import (
    DELETED,
    IDS,
    RESULT,
    RESULT_KEY,
    StoredUpload,
    decode,
    encode,
    upload_path,
)
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.records import Result, content_name, owner_key


@dataclass(frozen=True, slots=True)
class BlobSource:
    """The uploads of a container. All methods raise ChatErrors."""

    container: UploadsContainer
    file_bytes: int  # the limit of a file

    async def read_result(self, upload: Upload) -> Result:
        """Return what became of an upload."""
        try:
            metadata = await self.container.read_metadata(_name(upload, RESULT))
        except NotFound:
            return Result()
        return decode(metadata.get(RESULT_KEY), Result) or Result()

    async def write_result(self, upload: Upload, result: Result) -> None:
        """Store what became of an upload."""
        await self.container.put(_name(upload, RESULT), {RESULT_KEY: encode(result)})

    @asynccontextmanager
    async def open_file(self, upload: Upload) -> AsyncIterator[Path]:
        """Provide the file in a folder that only this process may read, until the block ends.

        Raises FileNotFoundError if it is removed, UnreadableDocument if it is too large.
        """
        name = content_name(upload.name)
        with tempfile.TemporaryDirectory(prefix="upload-") as folder:
            path = Path(folder) / name
            try:
                await self._download(await self.container.open(_name(upload, name)), path)
            except NotFound:
                raise FileNotFoundError(path) from None
            yield path

    async def _download(self, source: File, path: Path) -> None:
        """Write a file in chunks."""
        if source.size > self.file_bytes:
            raise UnreadableDocument(too_large_message(self.file_bytes))
        try:
            with path.open("xb") as file:
                async with aclosing(source.read(0, source.size)) as chunks:
                    async for chunk in chunks:
                        file.write(chunk)
        except OSError as error:  # such as a full disk
            raise Unavailable(cause=f"uploads: {type(error).__name__} {error.errno}") from None

    async def list_owner(self, upload: Upload) -> Sequence[Upload]:
        """Return the uploads of the same owner, without those that are deleted."""
        stored = await self.container.list_uploads(owner_key(upload.owner))
        uploads = (each.upload for each in stored)
        return [each for each in uploads if each is not None]

    async def mark_deleted(self, upload: Upload) -> None:
        """Hide an upload from now on, until it is removed."""
        await self.container.mark_deleted(upload_path(upload.owner, upload.id))

    async def remove(self, stored: StoredUpload) -> None:
        """Remove the blobs of an upload, all but the mark of its deletion."""
        await self.container.delete(f"{IDS}{stored.id}")
        for name in stored.blobs:
            if name != DELETED:
                await self.container.delete(f"{stored.path}/{name}")


def _name(upload: Upload, name: str) -> str:
    """The name of a blob of an upload."""
    return f"{upload_path(upload.owner, upload.id)}/{name}"
