"""Finds uploads that ended attempts have left, and removes blobs and passages of no upload."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ingest.targets.index_writer import DocumentRejected
from ingest.uploads.blob_run import ATTEMPT_SECONDS
from ingest.uploads.index import UploadsIndex
from ingest.uploads.replacement import list_replaced
from shared.uploads.base import is_upload_id
from shared.uploads.blob.layout import (
    DAY,
    IDS,
    StoredBlob,
    StoredUpload,
    group,
    is_draft,
    upload_path,
)
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.limits import DAY_SECONDS, DRAFT_SECONDS
from shared.uploads.records import utc_day

log = logging.getLogger("uploads")

MAX_READ_AGAIN = 200
"""Uploads that one run has read again although they are found: the next one continues."""


@dataclass(frozen=True, slots=True)
class UploadsSweep:
    """Compares the container and the index of uploads."""

    container: UploadsContainer
    index: UploadsIndex
    send: Callable[[str], Awaitable[None]]  # sends the message of an upload
    fingerprint: str  # of uploads that are up to date
    now: Callable[[], float] = time.time  # in seconds since 1970

    async def run(self) -> None:
        """Send messages, and remove what is unused. Raises DocumentRejected, ChatErrors."""
        indexed, failure = await self._list_index()  # first: it has no upload that is made later
        blobs = await self.container.list()
        uploads = group(blobs)
        for path in self._list_messages(uploads, indexed):
            await self.send(path)
        for path in (*self._list_damaged(uploads), *_list_replaced(uploads)):
            await self.container.mark_deleted(path)
            await self.send(path)
        for blob in self._list_unused(blobs, {each.id for each in uploads}):
            await self.container.delete(blob.name)
        if failure:
            raise failure
        await self._remove_passages(indexed or {}, {each.id for each in uploads})

    async def _list_index(self) -> tuple[Mapping[str, str] | None, DocumentRejected | None]:
        """The fingerprints of the documents in the index, or why they are unknown."""
        try:
            return await self.index.fingerprints(), None
        except DocumentRejected as failure:
            return None, failure

    def _list_messages(
        self, uploads: Iterable[StoredUpload], indexed: Mapping[str, str] | None
    ) -> list[str]:
        """The paths of the uploads that must be read or removed, and that no attempt changes."""
        idle = [each for each in uploads if not self._may_change(each)]
        paths = [each.path for each in idle if each.is_removed or _is_waiting(each)]
        outdated = [each for each in idle if self._is_outdated(each, indexed)]
        outdated.sort(key=lambda each: each.result.attempts)  # what failed before comes last
        return paths + [each.path for each in outdated[:MAX_READ_AGAIN]]

    def _list_damaged(self, uploads: Iterable[StoredUpload]) -> list[str]:
        """The paths of uploads whose record is damaged for a day, and of what drafts have left."""
        damaged = [each for each in uploads if each.upload is None and not each.is_removed]
        for each in damaged:
            if not each.is_discarded:
                log.error("uploads: the record of %s is damaged: deleted after a day", each.path)
        return [
            each.path
            for each in damaged
            if not self._may_change(each, ATTEMPT_SECONDS if each.is_discarded else DAY_SECONDS)
        ]

    def _may_change(self, stored: StoredUpload, seconds: float = ATTEMPT_SECONDS) -> bool:
        """Whether an attempt may still run; or whether a blob was written in the last seconds."""
        return any(self._is_new(blob, seconds) for blob in stored.blobs.values())

    def _is_new(self, blob: StoredBlob, seconds: float = ATTEMPT_SECONDS) -> bool:
        return blob.modified > self.now() - seconds

    def _is_outdated(self, stored: StoredUpload, indexed: Mapping[str, str] | None) -> bool:
        """Whether an upload is ready, and its passages are missing or would now be others."""
        upload = stored.upload
        if upload is None or upload.state != "ready" or indexed is None:
            return False
        return indexed.get(upload.path) != self.fingerprint

    def _list_unused(self, blobs: Sequence[StoredBlob], ids: set[str]) -> list[StoredBlob]:
        """The blobs that are not used any more, and belong to no upload."""
        return [blob for blob in blobs if self._is_unused(blob, ids)]

    def _is_unused(self, blob: StoredBlob, ids: set[str]) -> bool:
        folder, _, name = blob.name.rpartition("/")
        if is_draft(blob):
            return not self._is_new(blob, DRAFT_SECONDS)
        if self._is_new(blob):  # or of a day that has begun during the run
            return False
        if name.startswith(DAY):
            return name != f"{DAY}{utc_day(self.now())}"
        return f"{folder}/" == IDS and name not in ids

    async def _remove_passages(self, indexed: Iterable[str], ids: set[str]) -> None:
        """Remove the passages of uploads that do not exist."""
        folders = {name.partition("/")[0] for name in indexed}
        for id in sorted(folders - ids):
            if is_upload_id(id):
                log.warning("uploads: the index has passages of %s, which does not exist", id)
                await self.index.remove_folder(id)


def _list_replaced(uploads: Iterable[StoredUpload]) -> list[str]:
    """The paths of uploads that others have replaced, and that a killed attempt has not deleted.

    What has been given up is tried again before it replaces anything.
    """
    finished = (each.upload for each in uploads if each.result.given_up is None)
    replaced = list_replaced(each for each in finished if each is not None)
    return [upload_path(each.owner, each.id) for each in replaced]


def _is_waiting(stored: StoredUpload) -> bool:
    """Whether an upload must be read: for the first time, again, or it has been given up."""
    upload = stored.upload
    return upload is not None and upload.state != "ready" and not stored.has_failed
