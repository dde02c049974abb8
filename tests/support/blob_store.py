"""A store of uploads in Azurite: a container of its own for each test, and a queue."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import TextBase64DecodePolicy

from shared.files.blobs import make_container_client
from shared.uploads.base import Upload, UploadLimits
from shared.uploads.blob.queue import UploadsQueue, make_queue_client
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.blob.store import BlobUploads
from tests.support.azurite import AzuriteCredential, AzuriteHome

LIMITS = UploadLimits(file_bytes=3_000_000, files=3, files_per_day=100)


@dataclass(frozen=True)
class UploadsAccount:
    """A storage account in Azurite."""

    home: AzuriteHome
    blobs: str  # addresses
    queues: str

    @asynccontextmanager
    async def open(
        self, limits: UploadLimits = LIMITS, now: Callable[[], float] = time.time
    ) -> AsyncIterator[UploadsFixture]:
        """Open a store in a new container, and an empty queue."""
        options: dict[str, Any] = {"connection_verify": self.home.ca}
        client = make_container_client(
            self.blobs, f"uploads-{uuid.uuid4().hex[:12]}", AzuriteCredential(), **options
        )
        queue = make_queue_client(
            self.queues,
            AzuriteCredential(),
            message_decode_policy=TextBase64DecodePolicy(),
            **options,
        )
        async with client, queue:
            await client.create_container()
            with suppress(ResourceExistsError):
                await queue.create_queue()
            await queue.clear_messages()
            container = UploadsContainer(client)
            store = BlobUploads(container, UploadsQueue(queue), limits, now)
            yield UploadsFixture(store, container, queue)
        await asyncio.sleep(0.1)  # aiohttp closes TLS connections asynchronously


async def receive_all(queue: Any) -> list[str]:
    """Receive and delete all messages of a queue, whose client decodes them as the host does."""
    messages = [it async for it in queue.receive_messages(messages_per_page=32)]
    for message in messages:
        await queue.delete_message(message)
    return [message.content for message in messages]


@dataclass(frozen=True)
class UploadsFixture:
    """A store, and what it writes to."""

    store: BlobUploads
    container: UploadsContainer
    queue: Any

    async def add(
        self, owner: str, name: str, data: bytes = b"June.", replace: bool = False
    ) -> Upload:
        """Store an upload, and send its message."""
        draft = await self.store.begin(owner, name)
        try:
            await draft.write(data)
            upload = await draft.commit(replace)
        finally:
            await draft.discard()
        await self.store.enqueue([upload])
        return upload

    async def messages(self) -> list[str]:
        """Receive all messages."""
        return await receive_all(self.queue)

    async def names(self) -> list[str]:
        """The names of all blobs."""
        return [blob.name for blob in await self.container.list()]
