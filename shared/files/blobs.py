"""Reads files and images of passages from a container of Azure Blob storage."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob.aio import BlobClient, ContainerClient

from shared.azure.errors import (
    ShortStorageRetryPolicy,
    error_retry_after,
    map_errors,
    map_malformed_response,
)
from shared.domain.errors import Misconfigured, NotFound, TooManyRequests, Unavailable
from shared.domain.events import ByteStream
from shared.domain.messages import to_data_url
from shared.files.base import CHANGED_MESSAGE, TIMEOUT_MESSAGE, File

FILES_PREFIX, IMAGES_PREFIX = "files/", "pictures/"
CHUNK_BYTES = 1024 * 1024  # of one request, and of memory for one stream
MAX_IMAGE_BYTES = 4 * 1024 * 1024  # larger images are ignored
CONNECT_SECONDS, READ_SECONDS = 5, 30

_PASSAGE_ID = re.compile(r"[\w=-]{1,1000}", re.ASCII)  # characters of a passage's id


def make_container_client(
    endpoint: str, container: str, credential: Any, **options: Any
) -> ContainerClient:
    """Make the client of a container. `options` are those of the SDK."""
    settings: dict[str, Any] = {
        "retry_policy": ShortStorageRetryPolicy(),
        "connection_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "max_single_get_size": CHUNK_BYTES,
        "max_chunk_get_size": CHUNK_BYTES,
    }
    return ContainerClient(endpoint, container, credential, **(settings | options))


@dataclass(frozen=True, slots=True)
class BlobFiles:
    """The files of a container."""

    container: ContainerClient
    seconds: float  # the limit of one request
    name: ClassVar[str] = "blobs"

    async def ready(self) -> None:
        """Check that the container is accessible. Raises ChatErrors."""
        async with self._request():
            await self.container.get_container_properties()

    async def open(self, name: str) -> File:
        """Open the file of that name. Raises NotFound and other ChatErrors."""
        return await self.open_blob(FILES_PREFIX + name)

    async def open_blob(self, name: str) -> File:
        """Open a blob by its whole name. Raises NotFound and other ChatErrors."""
        blob = self.container.get_blob_client(name)
        async with self._request():
            properties = await blob.get_blob_properties()
            size, etag = properties.size, properties.etag
            modified = properties.last_modified.timestamp()
        return File(size, etag, modified, partial(self._read_chunks, blob, etag))

    async def read_image(self, passage_id: str) -> str | None:
        """Return the image of a passage as a data URL; None without one."""
        if not _PASSAGE_ID.fullmatch(passage_id):
            return None
        blob = self.container.get_blob_client(IMAGES_PREFIX + passage_id)
        try:
            data = await self._read_range(blob, 0, MAX_IMAGE_BYTES + 1)
        except NotFound:
            return None
        return to_data_url(data) if len(data) <= MAX_IMAGE_BYTES else None

    async def _read_chunks(self, blob: BlobClient, etag: str, start: int, stop: int) -> ByteStream:
        while start < stop:
            size = min(CHUNK_BYTES, stop - start)
            chunk = await self._read_range(blob, start, size, etag)
            if not chunk:
                raise Unavailable(CHANGED_MESSAGE)
            start += len(chunk)
            yield chunk

    async def _read_range(
        self, blob: BlobClient, start: int, size: int, etag: str | None = None
    ) -> bytes:
        responses: list[Any] = []
        options: dict[str, Any] = {"max_concurrency": 1, "decompress": False}
        if etag:
            options |= {"etag": etag, "match_condition": MatchConditions.IfNotModified}
        try:
            async with self._request():
                download = await blob.download_blob(
                    start, size, raw_response_hook=responses.append, **options
                )
                return bytes(await download.readall())
        finally:  # the SDK does not close a response that it fails to read
            for response in responses:
                await response.http_response.close()

    @asynccontextmanager
    async def _request(self) -> AsyncIterator[None]:
        """Map the errors of one request, and limit its time. Other code does not belong inside."""
        with map_errors("storage", map_status, TIMEOUT_MESSAGE), map_malformed_response():
            async with asyncio.timeout(self.seconds):
                yield


def error_code(error: HttpResponseError) -> str:
    """Return the error code of the service; empty without one."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def map_status(error: HttpResponseError, role: str = "Storage Blob Data Reader") -> Exception:
    """Map an error response to a ChatError. Only its code is logged: its text may name a file."""
    code = error_code(error)
    cause = f"storage: status {error.status_code}, code {code!r:.80}"
    match error.status_code:
        case 404 if "ContainerNotFound" in code:
            return Misconfigured(cause=f"{cause}: is AZURE_STORAGE_CONTAINER right?")
        case 404 | 416:
            return NotFound()
        case 401 | 403:
            hint = f"does the app's identity have the role {role}?"
            return Misconfigured(cause=f"{cause}: {hint}")
        case 412:
            return Unavailable(CHANGED_MESSAGE)
        case 429:
            return TooManyRequests(retry_after=error_retry_after(error), cause=cause)
        case _:
            return Unavailable(retry_after=error_retry_after(error), cause=cause)
