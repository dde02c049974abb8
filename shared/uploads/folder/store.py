"""Keeps uploads in a folder, and starts the process that reads them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from shared.domain.errors import Misconfigured, NotFound, TooLarge, TooManyRequests, Unavailable
from shared.files.base import File
from shared.files.folder import FolderFiles
from shared.uploads.base import NO_UPLOAD, Upload, UploadLimits, is_upload_id, make_id
from shared.uploads.folder.records import (
    Record,
    UploadFolder,
    list_drafts,
    list_folders,
    list_owner,
    make_draft,
    owner_folder,
)

MEGABYTE = 2**20
TOO_LARGE = "{name} is larger than {limit:g} MB, the limit of a file."
TOO_MANY = "You have {limit} uploads, as many as one person may have. Delete one first."


class FolderDraft:
    """An upload that is being written."""

    def __init__(
        self, owner: Path, record: Record, limits: UploadLimits, wake: Callable[[], None]
    ) -> None:
        """Write to a new folder in that of the owner. Raises TooManyRequests, OSError."""
        self._owner, self._record, self._limits, self._wake = owner, record, limits, wake
        self._draft: UploadFolder | None = make_draft(owner)
        if count_uploads(owner) > limits.files:
            self._draft.remove()
            raise TooManyRequests(TOO_MANY.format(limit=limits.files))
        self._file: BinaryIO = self._draft.content(record.name).open("xb")
        self._size = 0

    async def write(self, data: bytes) -> None:
        """Append bytes of the file. Raises TooLarge, Unavailable, Misconfigured."""
        self._size += len(data)
        if self._size > self._limits.file_bytes:
            limit = self._limits.file_bytes / MEGABYTE
            raise TooLarge(TOO_LARGE.format(name=self._record.name, limit=limit))
        with _map_errors():
            await asyncio.to_thread(self._file.write, data)

    async def commit(self, replace: bool = False) -> Upload:
        """Store it, and queue it to be read.

        With `replace`, it replaces earlier ones of the same name when it is ready. Raises
        Unavailable, Misconfigured.
        """
        with _map_errors():
            upload = await asyncio.to_thread(self._commit, replace)
        self._wake()
        return upload

    def _commit(self, replace: bool) -> Upload:
        assert self._draft is not None
        self._file.close()
        self._draft.write_record(
            self._record.model_copy(update={"size": self._size, "replaces": replace})
        )
        folder = UploadFolder(self._owner / make_id())
        self._draft.path.rename(folder.path)  # atomic: it exists whole or not at all
        self._draft = None
        upload = folder.read()
        assert upload is not None
        return upload

    async def discard(self) -> None:
        """Delete what is written. Without effect after `commit`."""
        draft, self._draft = self._draft, None
        self._file.close()
        if draft is not None:
            with suppress(OSError):  # the sweep repeats it
                await asyncio.to_thread(draft.remove)


class FolderUploads:
    """The uploads in a folder."""

    def __init__(self, root: Path, limits: UploadLimits, wake: Callable[[], None]) -> None:
        """`wake` starts the process that reads uploads and removes deleted ones."""
        self._root, self._limits, self._wake = root, limits, wake

    async def begin(self, owner: str, name: str) -> FolderDraft:
        """Begin an upload. Raises TooManyRequests, Unavailable, Misconfigured."""
        folder = owner_folder(self._root, owner)
        record = Record(owner=owner, name=name, size=0, created=time.time())
        with _map_errors():
            make = partial(FolderDraft, folder, record, self._limits, self._wake)
            return await asyncio.to_thread(make)

    async def list(self, owner: str) -> tuple[Upload, ...]:
        """Return the uploads of an owner, the oldest first. Raises Unavailable, Misconfigured."""
        with _map_errors():
            return await asyncio.to_thread(_list, owner_folder(self._root, owner), owner)

    async def delete(self, owner: str, id: str) -> None:
        """Delete an upload: hide it now, and let the other process remove it.

        Raises NotFound, Unavailable, Misconfigured.
        """
        with _map_errors():
            await asyncio.to_thread(self._mark_deleted, owner, id)
        self._wake()

    def _mark_deleted(self, owner: str, id: str) -> None:
        folder = UploadFolder(owner_folder(self._root, owner) / id)
        if not is_upload_id(id) or folder.read() is None:
            raise NotFound(NO_UPLOAD)
        folder.mark_deleted()

    async def open(self, id: str) -> File:
        """Open the file of an upload, whoever its owner is.

        Raises NotFound, Unavailable, Misconfigured.
        """
        with _map_errors():
            path = await asyncio.to_thread(self._find_content, id)
        return await FolderFiles(path.parent).open(path.name)

    def _find_content(self, id: str) -> Path:
        for folder in list_folders(self._root) if is_upload_id(id) else ():
            upload = folder.read() if folder.id == id else None
            if upload is not None:
                return folder.content(upload.name).resolve()
        raise NotFound(NO_UPLOAD)


def count_uploads(owner: Path) -> int:
    """Count the uploads in an owner's folder, also those that are being written."""
    complete = sum(not folder.is_deleted for folder in list_owner(owner))
    return complete + len(list_drafts(owner))


def _list(folder: Path, owner: str) -> tuple[Upload, ...]:
    uploads = (each.read() for each in list_owner(folder))
    own = (upload for upload in uploads if upload is not None and upload.owner == owner)
    return tuple(sorted(own, key=lambda upload: (upload.created, upload.id)))


@contextmanager
def _map_errors() -> Iterator[None]:
    """Map errors of the file system to ChatErrors, without their text, which has local paths."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(NO_UPLOAD) from None
    except PermissionError as error:
        cause = f"uploads: PermissionError {error.errno}: may the app write to UPLOADS_FOLDER?"
        raise Misconfigured(cause=cause) from None
    except OSError as error:  # such as a full disk
        raise Unavailable(cause=f"uploads: {type(error).__name__} {error.errno}") from None
