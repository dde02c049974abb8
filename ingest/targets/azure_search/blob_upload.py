"""Uploads the files behind citations and the images of passages to Blob storage, by identity.

Unlike the chat, it waits for a busy service for minutes, as long as Retry-After says."""

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

from ingest.storage_retry import make_retry_policy
from ingest.targets.index_writer import DocumentRejected
from shared.azure.errors import map_errors, map_malformed_response
from shared.domain.errors import ChatError
from shared.files.blobs import (
    FILES_PREFIX,
    IMAGES_PREFIX,
    error_code,
    make_container_client,
    map_status,
)

BLOCK_BYTES = 1024 * 1024  # sent, and in memory, at once; aiohttp warns of more
TIMEOUT_SECONDS = 600  # per file, including retries

_ROLE = "Storage Blob Data Contributor"
NO_METADATA: Mapping[str, str] = {}
_HASH_KEY = "sha256"  # the metadata with the hash of the file's content


def make_uploader(endpoint: str, container: str, credential: Any, **options: Any) -> BlobUploader:
    """Build the uploader of a container. `options` are the SDK's own."""
    settings = {
        "retry_policy": make_retry_policy(),
        "max_single_put_size": BLOCK_BYTES,
        "max_block_size": BLOCK_BYTES,
    }
    client = make_container_client(endpoint, container, credential, **(settings | options))
    return BlobUploader(client)


@dataclass(frozen=True, slots=True)
class BlobUploader:
    """Uploads and removes files and images; idempotent. All methods raise DocumentRejected."""

    container: ContainerClient

    async def ensure_container(self) -> None:
        """Create the container if it does not exist."""
        async with _map_errors():
            try:
                if not await self.container.exists():
                    await self.container.create_container()
            except ResourceExistsError as error:
                if "AlreadyExists" not in error_code(error):
                    raise  # a container of that name is being deleted

    async def put(
        self, name: str, path: Path, media_type: str, metadata: Mapping[str, str] = NO_METADATA
    ) -> bool:
        """Upload the file at `path` as `name`. Returns False if the blob is up to date."""
        async with _map_errors():
            expected = {**metadata, _HASH_KEY: await asyncio.to_thread(_hash_file, path)}
            blob = await self._get_properties(FILES_PREFIX + name)
            if blob and blob.metadata == expected and _content_type(blob) == media_type:
                return False
            with path.open("rb") as data:
                await self._upload(FILES_PREFIX + name, data, media_type, metadata=expected)
        return True

    async def list_names(self) -> list[str]:
        """The names of all files."""
        async with _map_errors():
            names = self.container.list_blob_names(name_starts_with=FILES_PREFIX)
            return [name.removeprefix(FILES_PREFIX) async for name in names]

    async def put_image(self, passage_id: str, data: bytes) -> None:
        async with _map_errors():
            await self._upload(IMAGES_PREFIX + passage_id, data, "application/octet-stream")

    async def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        async with _map_errors():
            await self._delete(FILES_PREFIX + name)

    async def remove_images(self, prefix: str, keep: Collection[str] = ()) -> None:
        """Remove the images of passages whose ids start with `prefix`, except those in `keep`."""
        async with _map_errors():
            names = self.container.list_blob_names(name_starts_with=IMAGES_PREFIX + prefix)
            async for name in names:
                if name.removeprefix(IMAGES_PREFIX) not in keep:
                    await self._delete(name)

    async def close(self) -> None:
        await self.container.close()

    async def _get_properties(self, name: str) -> BlobProperties | None:
        try:
            return await self.container.get_blob_client(name).get_blob_properties()
        except ResourceNotFoundError:
            return None

    async def _upload(self, name: str, data: Any, media_type: str, **more: Any) -> None:
        more |= {"content_settings": ContentSettings(content_type=media_type)}
        await self.container.upload_blob(name, data, overwrite=True, max_concurrency=1, **more)

    async def _delete(self, name: str) -> None:
        try:
            await self.container.delete_blob(name, delete_snapshots="include")
        except ResourceNotFoundError as error:
            if "ContainerNotFound" in error_code(error):
                raise


def _hash_file(path: Path) -> str:
    with path.open("rb") as data:
        return file_digest(data, "sha256").hexdigest()


def _content_type(blob: BlobProperties) -> str | None:
    return blob.content_settings.content_type


@asynccontextmanager
async def _map_errors() -> AsyncIterator[None]:
    """Map storage and file errors to DocumentRejected."""
    try:
        mapped = map_errors("storage", partial(map_status, role=_ROLE))
        with mapped, map_malformed_response():
            async with asyncio.timeout(TIMEOUT_SECONDS):
                yield
    except OSError as error:
        raise DocumentRejected(
            f"it cannot be read: {error.strerror or type(error).__name__}"
        ) from error
    except ChatError as error:
        raise DocumentRejected(error.cause or error.message) from error
