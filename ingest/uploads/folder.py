"""Reads the uploads of a folder, and removes the deleted ones."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ingest.uploads.indexer import UploadIndexer
from ingest.uploads.replacement import list_replaced
from shared.uploads.base import Upload
from shared.uploads.folder.records import (
    UploadFolder,
    list_drafts,
    list_folders,
    list_owner,
    list_owners,
    owner_folder,
    remove_other_days,
)
from shared.uploads.limits import DAY_SECONDS, DRAFT_SECONDS
from shared.uploads.records import Result, utc_day

log = logging.getLogger("uploads")

UNQUEUED_SECONDS = 120.0  # after which a stored upload is read: the app was killed meanwhile
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class FolderSource:
    """The uploads of a folder. Raises OSErrors."""

    root: Path

    def folder(self, upload: Upload) -> UploadFolder:
        """The folder of an upload."""
        return UploadFolder(owner_folder(self.root, upload.owner) / upload.id)

    def list_uploads(self) -> list[Upload]:
        """Return all uploads, without those that are deleted."""
        return _read(list_folders(self.root))

    async def read_result(self, upload: Upload) -> Result:
        """Return what became of an upload."""
        return self.folder(upload).read_result()

    async def write_result(self, upload: Upload, result: Result) -> None:
        """Store what became of an upload. Raises FileNotFoundError if it is removed."""
        self.folder(upload).write_result(result)

    @asynccontextmanager
    async def open_file(self, upload: Upload) -> AsyncIterator[Path]:
        """Provide the file, which is in the folder. Raises FileNotFoundError in the block."""
        yield self.folder(upload).content(upload.name)

    async def list_owner(self, upload: Upload) -> Sequence[Upload]:
        """Return the uploads of the same owner, without those that are deleted."""
        return _read(list_owner(owner_folder(self.root, upload.owner)))

    async def mark_deleted(self, upload: Upload) -> None:
        """Hide an upload from now on, until it is removed."""
        self.folder(upload).mark_deleted()


@dataclass(frozen=True, slots=True)
class FolderRun:
    """Brings the index of uploads up to date with their folder."""

    source: FolderSource
    indexer: UploadIndexer
    now: Callable[[], float] = time.time  # in seconds since 1970
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep  # gets seconds
    _indexed: dict[str, str] = field(default_factory=dict)  # fingerprints by name

    async def run(self) -> None:
        """Read and remove until nothing is left to do. Raises IndexUnavailable, ChatErrors."""
        self._indexed.update(await self.indexer.writer.fingerprints())
        self._remove_drafts()
        self._remove_other_days()
        self._mark_damaged()
        for upload in list_replaced(self.source.list_uploads()):  # a killed run has not
            await self.source.mark_deleted(upload)
        while await self._remove_deleted() or await self._read_next() or await self._wait():
            pass

    def _remove_drafts(self) -> None:
        """Remove incomplete uploads whose request has ended."""
        for path in chain.from_iterable(map(list_drafts, list_owners(self.source.root))):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - DRAFT_SECONDS:
                    UploadFolder(path).remove()

    def _remove_other_days(self) -> None:
        """Remove the numbers of uploads of other days."""
        for owner in list_owners(self.source.root):
            with suppress(OSError):
                remove_other_days(owner, utc_day(self.now()))

    def _mark_damaged(self) -> None:
        """Mark uploads as deleted whose record is damaged for a day: nobody sees them."""
        for folder in list_folders(self.source.root):
            if folder.is_deleted or folder.read() is not None:
                continue
            log.error("uploads: the record of %s is damaged: deleted after a day", folder.id)
            with suppress(OSError):
                if folder.path.stat().st_mtime < self.now() - DAY_SECONDS:
                    folder.mark_deleted()

    async def _remove_deleted(self) -> bool:
        """Remove from the index, then from the disk, what is deleted. Returns whether any was."""
        writer = self.indexer.writer
        folders = list(list_folders(self.source.root))
        deleted = [folder for folder in folders if folder.is_deleted]
        kept = {folder.id for folder in folders} - {folder.id for folder in deleted}
        names = [name for name in self._indexed if name.partition("/")[0] not in kept]
        for name in names:
            await writer.remove(name)
            del self._indexed[name]
        if names:
            await writer.finish()
        return any([_remove(folder) for folder in deleted])

    async def _read_next(self) -> bool:
        """Read the oldest upload that the index does not have. Returns whether there was one."""
        waiting = [upload for upload in self.source.list_uploads() if self._must_read(upload)]
        if not waiting:
            return False
        upload = min(waiting, key=lambda each: each.order)
        with suppress(FileNotFoundError):  # removed by hand
            result = await self.indexer.index(upload)
            if result.state == "ready":
                self._indexed[upload.path] = self.indexer.fingerprint
            await self.indexer.complete(upload, result)
        return True

    async def _wait(self) -> bool:
        """Wait a moment if any upload is to be queued. Returns whether there was one."""
        folders = list_folders(self.source.root)
        if not any(_is_unqueued(folder) and not folder.is_deleted for folder in folders):
            return False
        await self.sleep(POLL_SECONDS)
        return True

    def _must_read(self, upload: Upload) -> bool:
        if upload.state == "failed" or _is_unqueued(self.source.folder(upload)):
            return False
        is_current = self._indexed.get(upload.path) == self.indexer.fingerprint
        return not (upload.state == "ready" and is_current)


def _read(folders: Iterable[UploadFolder]) -> list[Upload]:
    """Return the uploads in these folders, without those that are deleted. Raises OSError."""
    uploads = (folder.read() for folder in folders)
    return [upload for upload in uploads if upload is not None]


def _is_unqueued(folder: UploadFolder) -> bool:
    """Whether the app stores an upload, and may still delete it: its form is incomplete."""
    since = folder.unqueued_since()
    # A clock that is set back must not make it wait for ever.
    return since is not None and abs(time.time() - since) < UNQUEUED_SECONDS


def _remove(folder: UploadFolder) -> bool:
    """Remove a folder. Returns whether it is gone; the next run tries again."""
    try:
        folder.remove()
    except OSError as error:
        log.error("uploads: %s cannot be removed: %s", folder.id, error.strerror)
        return False
    return True
