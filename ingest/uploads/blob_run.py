"""Reads or removes the upload that a message names, whatever an earlier attempt has left.

A message may come twice, at the same time too, and an attempt may be killed at any moment: the
platform repeats the message, and `sweep` sends another one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from ingest.uploads.blobs import BlobSource
from ingest.uploads.index import UploadsIndex
from ingest.uploads.indexer import UploadIndexer
from shared.uploads.base import Upload, is_upload_id
from shared.uploads.blob.layout import DELETED, StoredUpload, upload_path
from shared.uploads.limits import DAY_SECONDS
from shared.uploads.records import Result

ATTEMPT_SECONDS = 2_100.0
"""After which an attempt has ended: `functionTimeout` of host.json, and some minutes."""
REMOVED_SECONDS = 600.0  # after which searches find all passages that were written

GIVEN_UP = "It could not be read because a service failed. It is tried again for a day."
NOT_IN_A_DAY = "It could not be read for a day because a service failed. Upload it again."

_OWNER = re.compile(r"[0-9a-f]{32}")


def is_path(message: str) -> bool:
    """Whether a message is the path of an upload's blobs."""
    owner, _, id = message.partition("/")
    return _OWNER.fullmatch(owner) is not None and is_upload_id(id)


@dataclass(frozen=True, slots=True)
class BlobRun:
    """Reads or removes one upload."""

    source: BlobSource
    index: UploadsIndex
    indexer: UploadIndexer  # writes to the same index
    now: Callable[[], float] = time.time  # in seconds since 1970

    async def read(self, path: str) -> None:
        """Read an upload that must be read, remove one that is deleted.

        Raises DocumentRejected, SandboxStartError and ChatErrors: the message must be repeated.
        """
        stored = await self.source.container.find(path)
        if stored is None:
            return
        if stored.is_removed:
            await self._remove(stored)
        elif upload := stored.upload:
            await self._read(stored, upload)

    async def _read(self, stored: StoredUpload, upload: Upload) -> None:
        """Read an upload and index it, unless that has been done or has failed."""
        if stored.has_failed:
            return await self._remove_all(await self.indexer.delete_replaced(upload))
        found = (await self.index.fingerprints_in(upload.id)).get(upload.path)
        is_found = upload.state == "ready" and found is not None
        if is_found and found == self.indexer.fingerprint:
            return await self._remove_all(await self.indexer.delete_replaced(upload))
        result = stored.result
        with suppress(FileNotFoundError):  # it was removed at this moment
            result = await self.indexer.index(upload, is_found)
        after = await self.source.container.find(stored.path)
        if after is None:
            return await self.index.remove_folder(upload.id)
        if after.is_removed:
            return await self._remove(after)
        await self._remove_all(await self.indexer.complete(upload, result))

    async def _remove_all(self, deleted: Iterable[Upload]) -> None:
        """Remove uploads that are deleted."""
        for each in deleted:
            await self.read(upload_path(each.owner, each.id))

    async def _remove(self, stored: StoredUpload) -> None:
        """Remove the passages, then the blobs; the mark of the deletion last and later.

        Searches may find passages late: what comes after some minutes removes them once more, and
        then the mark.
        """
        await self.index.remove_folder(stored.id)
        await self.source.remove(stored)
        mark = stored.blobs.get(DELETED)
        if mark and mark.modified <= self.now() - REMOVED_SECONDS:
            await self.source.container.delete(mark.name)

    async def give_up(self, path: str) -> None:
        """Store that an upload could not be read; the sweep has it tried again for a day.

        Raises ChatErrors.
        """
        stored = await self.source.container.find(path)
        if stored is None or stored.upload is None:
            return
        result = stored.result
        if result.state == "ready" or stored.has_failed:
            return
        given_up = self.now() if result.given_up is None else result.given_up
        failed = Result(state="failed", reason=GIVEN_UP, given_up=given_up)
        if given_up <= self.now() - DAY_SECONDS:
            failed = Result(state="failed", reason=NOT_IN_A_DAY)
        await self.source.write_result(stored.upload, failed)
