"""Writes an upload to a container, in blocks."""

from __future__ import annotations

import base64
from contextlib import suppress

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock

from shared.domain.errors import ChatError
from shared.uploads.base import Upload, UploadLimits, make_id
from shared.uploads.blob.layout import (
    IDS,
    OWNER_KEY,
    RECORD_KEY,
    day_name,
    encode,
    upload_path,
)
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.records import (
    Record,
    RecordBuilder,
    Result,
    content_name,
    make_upload,
    owner_key,
    utc_day,
)

BLOCK_BYTES = 1024 * 1024  # of memory for an upload


class BlobDraft:
    """An upload that is being written. Its blob exists only when its blocks are committed."""

    def __init__(
        self, container: UploadsContainer, record: Record, limits: UploadLimits, mark: str
    ) -> None:
        """`mark` is the blob that counts the draft: it is deleted at the end."""
        self._container, self._mark = container, mark
        self._builder, self._day = RecordBuilder(record, limits), utc_day(record.created)
        self._id = make_id()
        self._path = upload_path(record.owner, self._id)
        self._name = f"{self._path}/{content_name(record.name)}"
        self._blob = container.blob(self._name)
        self._buffer, self._blocks = bytearray(), list[BlobBlock]()
        self._may_exist = False  # a commit was begun, whose outcome is not known

    async def write(self, data: bytes) -> None:
        """Append bytes of the file. Raises TooLarge, Unavailable, Misconfigured."""
        self._builder.add(data)
        self._buffer += data
        while len(self._buffer) >= BLOCK_BYTES:
            await self._stage(BLOCK_BYTES)

    async def _stage(self, size: int) -> None:
        """Send the first bytes of the buffer as a block."""
        id = base64.b64encode(f"{len(self._blocks):08}".encode()).decode("ascii")
        block = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._blocks.append(BlobBlock(id))  # before: the answer to the request may be lost
        async with self._container.request():
            await self._blob.stage_block(id, block, len(block))

    async def commit(self, replace: bool = False) -> Upload:
        """Store it. With `replace`, it replaces earlier ones of the same name when it is ready.

        Raises Unavailable, Misconfigured.
        """
        if self._buffer:
            await self._stage(len(self._buffer))
        record = self._builder.build(replace)
        owner = owner_key(record.owner)
        await self._container.put(IDS + self._id, {OWNER_KEY: owner})
        await self._container.append(day_name(owner, self._day))
        self._may_exist = True
        async with self._container.request():
            await self._blob.commit_block_list(
                self._blocks,
                metadata={RECORD_KEY: encode(record)},
                match_condition=MatchConditions.IfMissing,
            )
        self._may_exist, self._blocks = False, []
        await self.discard()
        return make_upload(self._id, record, Result())

    async def discard(self) -> None:
        """Delete what is written. Without effect after `commit`."""
        may_exist, self._may_exist = self._may_exist, False
        mark, self._mark = self._mark, ""
        blocks, self._blocks = self._blocks, []
        with suppress(ChatError):  # the mark counts for some minutes more
            if may_exist:  # the answer to a commit was lost: nobody shall find the upload
                await self._container.mark_deleted(self._path)
            elif blocks:  # they would stay, and cost, for a week: an empty blob replaces them
                await self._container.put(self._name)
                await self._container.delete(self._name)
            if mark:
                await self._container.delete(mark)
