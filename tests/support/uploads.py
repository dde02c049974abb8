"""Uploads in a folder, and runs of the process that reads them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from ingest.enrich import Enricher
from ingest.sandbox import SandboxReader
from ingest.targets.sqlite.writer import SqliteIndexWriter
from ingest.uploads.folder import FolderRun, FolderSource
from ingest.uploads.indexer import UploadIndexer
from shared.domain.errors import Misconfigured
from shared.domain.overrides import UNSET
from shared.domain.request import User
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta
from shared.uploads.base import Upload, UploadLimits
from shared.uploads.folder.records import INDEX, list_folders
from shared.uploads.folder.store import FolderUploads
from shared.uploads.retriever import UploadsRetriever
from tests.support.fake_index_writer import FakePassageReader

LIMITS = UploadLimits(file_bytes=1000, files=3, files_per_day=100)
BOUNDARY = "a-boundary"
FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}


def encode_form(*files: tuple[str, bytes], name: str = "file") -> bytes:
    """Encode a form with files, each with its name."""
    head = '--{}\r\nContent-Disposition: form-data; name="{}"; filename="{}"\r\n\r\n'
    parts = (head.format(BOUNDARY, name, file).encode() + data + b"\r\n" for file, data in files)
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


class Idle(Exception):
    """A run has nothing left to do but to wait."""


async def end_run(_seconds: float) -> None:
    raise Idle


class UploadsFolder:
    """Uploads in a folder. A test runs what reads them."""

    def __init__(self, root: Path, limits: UploadLimits = LIMITS, max_pages: int = 100) -> None:
        self.root, self.max_pages, self.wakes, self.now = root, max_pages, 0, time.time()
        self.store = FolderUploads(root, limits, self._wake, self._clock)
        self.source = FolderSource(root)
        self.passages = SqliteRetriever(root / INDEX)
        self.retriever = UploadsRetriever(SqliteRetriever(()), self.passages, self.store)

    def _clock(self) -> float:
        return self.now

    def _wake(self) -> None:
        self.wakes += 1

    def add(self, owner: str, name: str, text: str | bytes, replace: bool = False) -> Upload:
        """Store an upload."""

        async def go() -> Upload:
            draft = await self.store.begin(owner, name)
            try:
                await draft.write(text.encode() if isinstance(text, str) else text)
                upload = await draft.commit(replace)
                await self.store.enqueue([upload])
                return upload
            finally:
                await draft.discard()

        return asyncio.run(go())

    def uploads_of(self, owner: str) -> tuple[Upload, ...]:
        return asyncio.run(self.store.list(owner))

    def delete(self, owner: str, id: str) -> None:
        asyncio.run(self.store.delete(owner, id))

    def run(
        self,
        reader: Any = None,
        writer: Callable[[Any], Any] = lambda it: it,
        sleep: Callable[[float], Awaitable[None]] = end_run,
    ) -> None:
        """Read and remove, as the process does. `writer` wraps that of the index.

        It ends where it would wait for uploads to be queued, unless `sleep` waits for them.
        """

        async def go() -> None:
            async with AsyncExitStack() as stack:
                target = SqliteIndexWriter(self.root / INDEX, IndexMeta(None))
                stack.push_async_callback(target.close)
                files = reader or FakePassageReader()
                if isinstance(files, SandboxReader):
                    await stack.enter_async_context(files)
                parts = (self.source, files, writer(target), Enricher(), self.max_pages)
                run = FolderRun(self.source, UploadIndexer(*parts), self._clock, sleep)
                with suppress(Idle):
                    await run.run()

        asyncio.run(go())

    def search(self, owner: str | None, words: str) -> list[str]:
        """The texts that a search returns to a user."""
        result = asyncio.run(self.retriever.search(User(owner), words, UNSET))
        return [source.content for source in result.sources]

    def indexed(self) -> set[str]:
        """The ids of the uploads in the index, whatever their state is."""
        names = set[str]()
        for owner in ("anna", "ben"):
            with suppress(Misconfigured):  # there is no index yet
                files = self.passages.list_files(User(owner), RESTRICTED, "", 100)
                names |= {name.partition("/")[0] for name in asyncio.run(files)}
        return names

    def folders(self) -> set[str]:
        """The ids of the uploads on disk, also of deleted ones."""
        return {folder.id for folder in list_folders(self.root)}


RESTRICTED = UNSET.model_copy(update={"use_oid_security_filter": True})
