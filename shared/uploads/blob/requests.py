"""Requests to the container of uploads, each within a limit of time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob.aio import BlobClient, ContainerClient

from shared.azure.errors import map_errors, map_malformed_response
from shared.domain.errors import Misconfigured, NotFound
from shared.files.base import File
from shared.files.blobs import BlobFiles, error_code, map_status
from shared.uploads.base import NO_UPLOAD
from shared.uploads.blob.layout import DELETED, StoredBlob, StoredUpload, group

CONTAINER = "uploads"
ROLE = "Storage Blob Data Contributor"


@dataclass(frozen=True, slots=True)
class UploadsContainer:
    """The container of uploads. All methods raise Unavailable, Misconfigured, TooManyRequests."""

    client: ContainerClient
    seconds: float = 10.0  # the limit of one request

    def blob(self, name: str) -> BlobClient:
        """The client of a blob."""
        return self.client.get_blob_client(name)

    async def put(self, name: str, metadata: Mapping[str, str] | None = None) -> None:
        """Write an empty blob, in place of an earlier one."""
        async with self.request():
            await self.blob(name).upload_blob(b"", overwrite=True, metadata=dict(metadata or {}))

    async def mark_deleted(self, path: str) -> None:
        """Mark an upload as deleted, by the path of its blobs."""
        await self.put(f"{path}/{DELETED}")

    async def append(self, name: str) -> None:
        """Append a byte to a blob, which is created if it does not exist."""
        blob = self.blob(name)
        with suppress(NotFound):
            async with self.request():
                await blob.append_block(b".")
            return
        async with self.request():
            with suppress(ResourceExistsError):  # another request has created it
                await blob.create_append_blob(match_condition=MatchConditions.IfMissing)
        async with self.request():
            await blob.append_block(b".")

    async def delete(self, name: str) -> None:
        """Delete a blob if it exists."""
        with suppress(NotFound):
            async with self.request():
                await self.blob(name).delete_blob()

    async def read_metadata(self, name: str) -> Mapping[str, str]:
        """Return the metadata of a blob. Raises NotFound."""
        async with self.request():
            return dict((await self.blob(name).get_blob_properties()).metadata or {})

    async def open(self, name: str) -> File:
        """Open a blob. Raises NotFound."""
        return await BlobFiles(self.client, self.seconds).open_blob(name)

    async def has_any(self, prefix: str = "") -> bool:
        """Whether a blob exists whose name begins with `prefix`."""
        async with self.request():
            async for _ in self.client.list_blobs(name_starts_with=prefix, results_per_page=1):
                return True
        return False

    async def list(self, prefix: str = "") -> list[StoredBlob]:
        """Return the blobs whose names begin with `prefix`, with their metadata."""
        pages = self.client.list_blobs(name_starts_with=prefix, include=["metadata"]).by_page()
        blobs: list[StoredBlob] = []
        while True:
            async with self.request():  # for up to 5,000 blobs
                page = await anext(pages, None)
                if page is None:
                    return blobs
                async for it in page:
                    modified, metadata = it.last_modified.timestamp(), dict(it.metadata or {})
                    blobs.append(StoredBlob(it.name, it.size, modified, metadata))

    async def list_uploads(self, owner: str) -> Sequence[StoredUpload]:
        """Return the uploads of an owner, also deleted ones. `owner` is a key."""
        return group(await self.list(f"{owner}/"))

    async def find(self, path: str) -> StoredUpload | None:
        """Return the upload whose blobs have this path, also a deleted one; None without any."""
        return next(iter(group(await self.list(f"{path}/"))), None)

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Map the errors of one request, and limit its time."""
        with map_errors("uploads", map_upload_status), map_malformed_response():
            async with asyncio.timeout(self.seconds):
                yield


def map_upload_status(error: HttpResponseError) -> Exception:
    """Map an error response of the container to a ChatError."""
    if error.status_code == 404 and "ContainerNotFound" in error_code(error):
        cause = f"uploads: there is no container `{CONTAINER}`: is AZURE_UPLOADS_ENDPOINT right?"
        return Misconfigured(cause=cause)
    mapped = map_status(error, ROLE)
    return NotFound(NO_UPLOAD) if isinstance(mapped, NotFound) else mapped
