"""Fills the container that citations' files and passages' pictures lie in, by identity.

Who runs it waits for a busy service, unlike a chat: for minutes, as long as the service asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobProperties, ContentSettings
from azure.storage.blob.aio import ContainerClient

from shared.azure.error_mapping import map_errors
from shared.chat.errors import ChatError
from shared.files.blobs import (
    FILES_PREFIX,
    IMAGES_PREFIX,
    StorageRetryAdapter,
    error_code,
    make_container_client,
    map_status,
)
from shared.ingest.targets.index_writer import DocumentRejected

BLOCK_BYTES = 1024 * 1024  # bytes that are sent, and held, at once; aiohttp warns of more
TIMEOUT_SECONDS = 600  # for one file, all waits included

_ROLE = "Storage Blob Data Contributor"
NO_METADATA: Mapping[str, str] = {}
_HASH_KEY = "sha256"  # the metadata that tells whether a file has changed


class UploadRetryPolicy(StorageRetryAdapter):
    """What fails for a moment is tried again; a Retry-After is obeyed."""


def make_uploader(endpoint: str, container: str, credential: Any, **options: Any) -> BlobUploader:
    """What fills a container. `options` are the SDK's own."""
    waits = UploadRetryPolicy(retry_total=6, retry_status=6, retry_backoff_max=30)
    settings = {
        "retry_policy": waits,
        "max_single_put_size": BLOCK_BYTES,
        "max_block_size": BLOCK_BYTES,
    }
    return BlobUploader(
        make_container_client(endpoint, container, credential, **(settings | options))
    )


@dataclass(frozen=True, slots=True)
class BlobUploader:
    """Puts and removes files and pictures. Everything raises Refused, and may be repeated."""

    container: ContainerClient

    async def ensure_container(self) -> None:
        """Make the container where there is none."""
        async with _map_errors():
            if not await self.container.exists():
                await self._create_container()

    async def _create_container(self) -> None:
        try:
            await self.container.create_container()
        except ResourceExistsError as error:
            if "AlreadyExists" not in error_code(error):
                raise  # one of that name is being removed

    async def put(
        self, name: str, path: Path, media_type: str, more: Mapping[str, str] = NO_METADATA
    ) -> bool:
        """Upload the file at `path` as `name`, with `more` metadata; whether that was needed."""
        async with _map_errors():
            told = {**more, _HASH_KEY: await asyncio.to_thread(_hash_file, path)}
            there = await self._get_properties(FILES_PREFIX + name)
            if there and there.metadata == told and _content_type(there) == media_type:
                return False
            with path.open("rb") as data:
                await self._upload(FILES_PREFIX + name, data, media_type, metadata=told)
        return True

    async def list_names(self) -> list[str]:
        """The names of all files."""
        async with _map_errors():
            listed = self.container.list_blob_names(name_starts_with=FILES_PREFIX)
            return [name.removeprefix(FILES_PREFIX) async for name in listed]

    async def put_image(self, passage: str, data: bytes) -> None:
        """Upload the picture of the passage of that id."""
        async with _map_errors():
            await self._upload(IMAGES_PREFIX + passage, data, "application/octet-stream")

    async def remove(self, name: str) -> None:
        """Remove a file; nothing where it is not there."""
        async with _map_errors():
            await self._delete(FILES_PREFIX + name)

    async def remove_images(self, prefix: str, keep: Collection[str] = ()) -> None:
        """Remove the pictures of all passages whose ids begin so, but of those in `keep`."""
        async with _map_errors():
            async for name in self.container.list_blob_names(
                name_starts_with=IMAGES_PREFIX + prefix
            ):
                if name.removeprefix(IMAGES_PREFIX) not in keep:
                    await self._delete(name)

    async def close(self) -> None:
        """Close the connections."""
        await self.container.close()

    async def _get_properties(self, name: str) -> BlobProperties | None:
        try:
            return await self.container.get_blob_client(name).get_blob_properties()
        except ResourceNotFoundError:
            return None

    async def _upload(self, name: str, data: Any, media_type: str, **more: Any) -> None:
        settings = ContentSettings(content_type=media_type)
        put = partial(self.container.upload_blob, overwrite=True, max_concurrency=1)
        await put(name, data, content_settings=settings, **more)

    async def _delete(self, name: str) -> None:
        try:
            await self.container.delete_blob(name, delete_snapshots="include")
        except ResourceNotFoundError as error:
            if "ContainerNotFound" in error_code(error):
                raise


def _hash_file(path: Path) -> str:
    with path.open("rb") as data:
        return file_digest(data, "sha256").hexdigest()


def _content_type(there: BlobProperties) -> str | None:
    return there.content_settings.content_type


@asynccontextmanager
async def _map_errors() -> AsyncIterator[None]:
    """Whatever went wrong, as a sentence for who runs it."""
    try:
        with map_errors("storage", partial(map_status, role=_ROLE)):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                yield
    except OSError as error:
        raise DocumentRejected(
            f"it cannot be read: {error.strerror or type(error).__name__}"
        ) from error
    except ChatError as error:
        raise DocumentRejected(error.cause or error.message) from error
