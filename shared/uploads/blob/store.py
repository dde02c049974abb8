"""Keeps uploads in a container, and has them read by the messages of a queue."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from shared.domain.errors import ChatError, NotFound
from shared.files.base import File
from shared.uploads.base import NO_UPLOAD, Upload, UploadLimits, is_upload_id
from shared.uploads.blob.draft import BlobDraft
from shared.uploads.blob.layout import (
    DRAFT,
    IDS,
    OWNER_KEY,
    StoredBlob,
    day_name,
    group,
    list_drafts,
    upload_path,
)
from shared.uploads.blob.queue import UploadsQueue
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.limits import check_day, check_number
from shared.uploads.records import Record, owner_key, utc_day

FEW = 8
"""Uploads that are read by a listing each; of more the owner's whole listing is read."""

log = logging.getLogger("chat")


class BlobUploads:
    """The uploads in a container."""

    name = "blobs"

    def __init__(
        self,
        container: UploadsContainer,
        queue: UploadsQueue,
        limits: UploadLimits,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now` returns the seconds since 1970."""
        self._container, self._queue, self.limits, self._now = container, queue, limits, now

    async def ready(self) -> None:
        """Check that the container is accessible. Raises ChatErrors."""
        await self._container.has_any()

    async def begin(self, owner: str, name: str) -> BlobDraft:
        """Begin an upload. Raises TooManyRequests, Unavailable, Misconfigured."""
        now, key = self._now(), owner_key(owner)
        mark = f"{key}/{DRAFT}{secrets.token_hex(8)}"
        await self._container.put(mark)
        try:
            check_owner(await self._container.list(f"{key}/"), key, self.limits, now)
        except ChatError:
            with suppress(ChatError):  # it counts for some minutes more
                await self._container.delete(mark)
            raise
        record = Record(owner=owner, name=name, size=0, created=now)
        return BlobDraft(self._container, record, self.limits, mark)

    async def enqueue(self, uploads: Sequence[Upload]) -> None:
        """Send a message for each stored upload.

        A message that fails may have arrived, and its upload may have replaced others: nothing is
        undone, and the sweep sends what is missing.
        """
        await asyncio.gather(*(self._send(upload_path(it.owner, it.id)) for it in uploads))

    async def _send(self, path: str) -> None:
        """Send a message, or log why the sweep will have to."""
        try:
            await self._queue.send(path)
        except ChatError as error:
            log.error("uploads: a message was not sent, the sweep sends it: %s", error.cause)

    async def has_any(self, owner: str) -> bool:
        """Whether an owner may have uploads. Raises Unavailable, Misconfigured."""
        return await self._container.has_any(f"{owner_key(owner)}/upload-")

    async def get(self, owner: str, ids: Iterable[str]) -> Mapping[str, Upload]:
        """Return uploads of an owner by their ids. Raises Unavailable, Misconfigured."""
        wanted = {id for id in ids if is_upload_id(id)}
        if len(wanted) > FEW:
            return {each.id: each for each in await self.list(owner) if each.id in wanted}
        paths = (upload_path(owner, id) for id in wanted)
        stored = await asyncio.gather(*map(self._container.find, paths))
        return {each.id: each for it in stored if it and (each := it.upload)}

    async def list(self, owner: str) -> tuple[Upload, ...]:
        """Return the uploads of an owner, the oldest first. Raises Unavailable, Misconfigured."""
        stored = await self._container.list_uploads(owner_key(owner))
        uploads = (each.upload for each in stored)
        return tuple(sorted((it for it in uploads if it), key=lambda it: it.order))

    async def list_ids(self, owner: str) -> tuple[str, ...]:
        """Return the ids of an owner's uploads, also if their record is damaged.

        Raises Unavailable, Misconfigured.
        """
        stored = await self._container.list_uploads(owner_key(owner))
        return tuple(each.id for each in stored if not each.is_removed)

    async def delete(self, owner: str, id: str) -> None:
        """Delete an upload: hide it now, and have it removed.

        Raises NotFound, Unavailable, Misconfigured.
        """
        path = upload_path(owner, id)
        stored = await self._container.find(path) if is_upload_id(id) else None
        if stored is None or stored.is_removed:
            raise NotFound(NO_UPLOAD)
        await self._container.mark_deleted(path)
        await self._send(path)

    async def open(self, id: str) -> File:
        """Open the file of an upload, whoever its owner is.

        Raises NotFound, Unavailable, Misconfigured.
        """
        if not is_upload_id(id):
            raise NotFound(NO_UPLOAD)
        metadata = await self._container.read_metadata(IDS + id)
        stored = await self._container.find(f"{metadata.get(OWNER_KEY, '')}/{id}")
        if stored is None or stored.upload is None or stored.content is None:
            raise NotFound(NO_UPLOAD)
        return await self._container.open(stored.content.name)

    async def close(self) -> None:
        """Close the clients."""
        await self._container.client.close()
        await self._queue.client.close()


def check_owner(blobs: Sequence[StoredBlob], owner: str, limits: UploadLimits, now: float) -> None:
    """Raise TooManyRequests if an owner has too many uploads, or too many of today.

    `blobs` are all of the owner, whose key is `owner`. Those that are being written count.
    """
    drafts, stored = len(list_drafts(blobs, now)), group(blobs)
    kept = sum(not each.is_deleted for each in stored)
    check_number(kept + drafts, len(stored) + drafts, limits)
    today = day_name(owner, utc_day(now))
    check_day(sum(blob.size for blob in blobs if blob.name == today) + drafts, limits, now)
