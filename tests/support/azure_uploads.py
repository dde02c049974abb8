"""Uploads in a container of Azurite, their index in memory, and the service that reads them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.blob.aio import ContainerClient

from ingest.enrich import Enricher
from ingest.sandbox import SandboxReader
from ingest.uploads.blobs import BlobSource
from ingest.uploads.service import UploadService
from shared.files.blobs import make_container_client
from shared.uploads.base import Upload, UploadLimits
from shared.uploads.blob.draft import BlobDraft
from shared.uploads.blob.layout import (
    StoredBlob,
    group,
    upload_path,
)
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.records import Record, Result
from tests.support.azurite import AzuriteCredential, AzuriteHome
from tests.support.fake_index_writer import FakePassageReader
from tests.support.fake_uploads_index import FakeUploadsIndex
from tests.support.moments import Moments

T = TypeVar("T")
LIMITS = UploadLimits(file_bytes=100_000_000, files=100, files_per_day=100)
LATER = 2_101.0  # seconds, after which no attempt runs any more


class MomentsTransport(AioHttpTransport):  # type: ignore[misc]
    """The transport of an SDK: a moment is before or after each request."""

    moments = Moments(0)

    async def send(self, *args: Any, **options: Any) -> Any:
        self.moments.pass_moment()
        response = await super().send(*args, **options)
        self.moments.pass_moment()
        return response


class UploadsInAzure:
    """Uploads in a container. A test delivers the messages, and moves the clock."""

    def __init__(self, home: AzuriteHome, account: str, name: str = "") -> None:
        self.runner, self.index = asyncio.Runner(), FakeUploadsIndex()
        self.reader: SandboxReader = FakePassageReader()
        self.sent: list[str] = []
        self.offset, self.max_pages, self.file_bytes = 0.0, 100, 10_000_000
        self.enricher = Enricher(fingerprint="1")
        self.transport = MomentsTransport(connection_verify=home.ca)
        blocks = {"max_single_put_size": 2**19, "max_block_size": 2**19}
        options = {"transport": self.transport, **blocks}
        client = make_container_client(
            account, name or random_name(), AzuriteCredential(), **options
        )
        self.container = UploadsContainer(client)
        self.runner.run(create(client))

    def close(self) -> None:
        self.call(self.container.client.close())
        self.runner.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def now(self) -> float:
        return time.time() + self.offset

    @property
    def service(self) -> UploadService:
        async def send(path: str) -> None:
            self.sent.append(path)

        source = BlobSource(self.container, self.file_bytes)
        parts = (source, self.reader, self.enricher, self.max_pages, lambda: self.index)
        return UploadService(*parts, send, self.now)

    def add(self, owner: str, name: str, text: str | bytes, replaces: bool = False) -> Upload:
        """Store an upload, without a message."""
        data = text.encode() if isinstance(text, str) else text
        record = Record(owner=owner, name=name, size=0, created=time.time())

        async def go() -> Upload:
            draft = BlobDraft(self.container, record, LIMITS, mark="")
            await draft.write(data)
            return await draft.commit(replaces)

        return self.call(go())

    def delete(self, upload: Upload) -> None:
        self.call(self.mark_deleted(upload))

    async def mark_deleted(self, upload: Upload) -> None:
        await self.container.mark_deleted(path_of(upload))

    def read(self, *uploads: Upload) -> None:
        """Deliver the message of each upload."""
        for upload in uploads:
            self.call(self.service.read(path_of(upload)))

    def give_up(self, upload: Upload) -> None:
        self.call(self.service.give_up(path_of(upload)))

    def sweep(self) -> list[str]:
        """Run the sweep. Returns the messages that it sends."""
        self.sent.clear()
        self.call(self.service.sweep())
        return self.sent[:]

    def settle(self) -> None:
        """Some minutes later run the sweep, and deliver its messages; and the same again."""
        for _ in range(3):
            self.offset += LATER
            for path in self.sweep():
                self.call(self.service.read(path))

    def blobs(self) -> list[StoredBlob]:
        return self.call(self.container.list())

    def names(self) -> set[str]:
        """The names of the blobs, without the number of today."""
        return {blob.name for blob in self.blobs() if "/day-" not in blob.name}

    def uploads_of(self, owner: str) -> list[Upload]:
        uploads = (each.upload for each in group(self.blobs()))
        return [each for each in uploads if each is not None and each.owner == owner]

    def states(self, owner: str = "anna") -> dict[str, tuple[str, str]]:
        return {each.name: (each.state, each.reason) for each in self.uploads_of(owner)}

    def result(self, upload: Upload) -> Result:
        """What became of an upload."""
        (stored,) = [each for each in group(self.blobs()) if each.id == upload.id]
        return stored.result

    def found(self, owner: str) -> list[str]:
        """The texts that a search finds: of what is ready."""
        ready = {each.path for each in self.uploads_of(owner) if each.state == "ready"}
        documents = [it for name, it in self.index.documents.items() if name in ready]
        return [p.content for it in documents for p in it.passages if p.oids == (owner,)]


async def create(client: ContainerClient) -> None:
    if await client.exists():
        await client.delete_container()
    await client.create_container()


def random_name() -> str:
    return f"c{secrets.token_hex(8)}"


def path_of(upload: Upload) -> str:
    """The path of the blobs of an upload."""
    return upload_path(upload.owner, upload.id)


class ActingReader(FakePassageReader):
    """Does something while it reads."""

    def __init__(self, act: Callable[[Path], Awaitable[Any]]) -> None:
        super().__init__()
        self.act = act

    async def read_passages(self, path: Path, name: str) -> Any:
        await self.act(path)
        return await super().read_passages(path, name)
