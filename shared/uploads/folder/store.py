"""Keeps uploads in a folder, and starts the process that reads them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shared.domain.errors import Misconfigured, NotFound, TooManyRequests, Unavailable
from shared.files.base import File
from shared.files.folder import FolderFiles
from shared.uploads.base import NO_UPLOAD, Upload, UploadLimits, is_upload_id, make_id
from shared.uploads.folder.records import (
    UploadFolder,
    add_to_day,
    count_day,
    count_drafts,
    count_entries,
    has_uploads,
    list_owner,
    list_owners,
    make_draft,
    owner_folder,
)
from shared.uploads.limits import check_day, check_number
from shared.uploads.records import Record, RecordBuilder, utc_day


class FolderDraft:
    """An upload that is being written."""

    def __init__(self, owner: Path, record: Record, limits: UploadLimits) -> None:
        """Write to a new folder in that of the owner. Raises TooManyRequests, OSError."""
        self._owner, self._day = owner, utc_day(record.created)
        self._builder = RecordBuilder(record, limits)
        draft = make_draft(owner)
        self._draft: UploadFolder | None = draft
        try:
            check_owner(owner, limits, record.created)
            self._file: BinaryIO = draft.content(record.name).open("xb")
        except (OSError, TooManyRequests):
            draft.remove()
            raise

    async def write(self, data: bytes) -> None:
        """Append bytes of the file. Raises TooLarge, Unavailable, Misconfigured."""
        with _map_errors():
            await asyncio.to_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        self._builder.add(data)
        self._file.write(data)

    async def commit(self, replace: bool = False) -> Upload:
        """Store it. It is read after `FolderUploads.enqueue`.

        With `replace`, it replaces earlier ones of the same name when it is ready. Raises
        Unavailable, Misconfigured.
        """
        with _map_errors():
            return await asyncio.to_thread(self._commit, replace)

    def _commit(self, replace: bool) -> Upload:
        assert self._draft is not None
        self._file.close()
        record = self._builder.build(replace)
        self._draft.write_record(record)
        self._draft.mark_unqueued()
        add_to_day(self._owner, self._day)
        folder = UploadFolder(self._owner / make_id())
        self._draft.path.rename(folder.path)  # atomic: it exists whole or not at all
        self._draft = None
        return Upload(folder.id, **dict(record))

    async def discard(self) -> None:
        """Delete what is written. Without effect after `commit`."""
        draft, self._draft = self._draft, None
        await asyncio.to_thread(self._discard, draft)

    def _discard(self, draft: UploadFolder | None) -> None:
        with suppress(OSError):  # a full disk
            self._file.close()
        if draft is not None:
            with suppress(OSError):  # the next run of the other process repeats it
                draft.remove()


class FolderUploads:
    """The uploads in a folder."""

    def __init__(
        self,
        root: Path,
        limits: UploadLimits,
        wake: Callable[[], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`wake` starts the process that reads uploads and removes deleted ones.

        `now` returns the seconds since 1970.
        """
        self._root, self.limits, self._wake, self._now = root, limits, wake, now

    async def begin(self, owner: str, name: str) -> FolderDraft:
        """Begin an upload. Raises TooManyRequests, Unavailable, Misconfigured."""
        folder = owner_folder(self._root, owner)
        record = Record(owner=owner, name=name, size=0, created=self._now())
        with _map_errors():
            return await asyncio.to_thread(FolderDraft, folder, record, self.limits)

    async def enqueue(self, uploads: Sequence[Upload]) -> None:
        """Let uploads be read. Raises Unavailable, Misconfigured."""
        folders = [UploadFolder(owner_folder(self._root, it.owner) / it.id) for it in uploads]
        with _map_errors():
            await asyncio.to_thread(_mark_queued, folders)
        self._wake()

    async def has_any(self, owner: str) -> bool:
        """Whether an owner may have uploads. Raises Unavailable, Misconfigured."""
        with _map_errors():
            return await asyncio.to_thread(has_uploads, owner_folder(self._root, owner))

    async def get(self, owner: str, ids: Iterable[str]) -> Mapping[str, Upload]:
        """Return uploads of an owner by their ids. Raises Unavailable, Misconfigured."""
        folder = owner_folder(self._root, owner)
        folders = [UploadFolder(folder / id) for id in set(ids) if is_upload_id(id)]
        with _map_errors():
            uploads = await asyncio.to_thread(_read, folders, owner)
        return {each.id: each for each in uploads}

    async def list(self, owner: str) -> tuple[Upload, ...]:
        """Return the uploads of an owner, the oldest first. Raises Unavailable, Misconfigured."""
        folders = list_owner(owner_folder(self._root, owner))
        with _map_errors():
            return await asyncio.to_thread(_read, folders, owner)

    async def list_ids(self, owner: str) -> tuple[str, ...]:
        """Return the ids of an owner's uploads, also if their record is damaged.

        Raises Unavailable, Misconfigured.
        """
        folder = owner_folder(self._root, owner)
        with _map_errors():
            return await asyncio.to_thread(_list_ids, folder)

    async def delete(self, owner: str, id: str) -> None:
        """Delete an upload: hide it now, and let the other process remove it.

        Raises NotFound, Unavailable, Misconfigured.
        """
        with _map_errors():
            await asyncio.to_thread(self._mark_deleted, owner, id)
        self._wake()

    def _mark_deleted(self, owner: str, id: str) -> None:
        folder = UploadFolder(owner_folder(self._root, owner) / id)
        if not is_upload_id(id) or folder.is_deleted:
            raise NotFound(NO_UPLOAD)
        folder.mark_deleted()

    async def open(self, id: str) -> File:
        """Open the file of an upload, whoever its owner is.

        Raises NotFound, Unavailable, Misconfigured.
        """
        with _map_errors():
            folder, name = await asyncio.to_thread(self._find_content, id)
        return await FolderFiles(folder).open(name)

    def _find_content(self, id: str) -> tuple[Path, str]:
        for owner in list_owners(self._root) if is_upload_id(id) else ():
            folder = UploadFolder(owner / id)
            if upload := folder.read():
                return folder.path, folder.content(upload.name).name
        raise NotFound(NO_UPLOAD)


def check_owner(owner: Path, limits: UploadLimits, now: float) -> None:
    """Raise TooManyRequests if an owner's folder has too many uploads, or too many of today.

    Those that are being written count.
    """
    drafts = count_drafts(owner)
    if count_entries(owner) > limits.files:  # as a rule it is not; this looks into each
        folders = list(list_owner(owner))
        kept = sum(not folder.is_deleted for folder in folders)
        check_number(kept + drafts, len(folders) + drafts, limits)
    check_day(count_day(owner, utc_day(now)) + drafts, limits, now)


def _read(folders: Iterable[UploadFolder], owner: str) -> tuple[Upload, ...]:
    """Return the uploads in these folders, the oldest first. Raises OSError."""
    uploads = (folder.read() for folder in folders)
    own = (upload for upload in uploads if upload is not None and upload.owner == owner)
    return tuple(sorted(own, key=lambda upload: upload.order))


def _list_ids(owner: Path) -> tuple[str, ...]:
    """Return the ids of the uploads of an owner's folder, without deleted ones. Raises OSError."""
    return tuple(folder.id for folder in list_owner(owner) if not folder.is_deleted)


def _mark_queued(folders: Iterable[UploadFolder]) -> None:
    """Let the uploads in these folders be read. Raises OSError."""
    for folder in folders:
        folder.mark_queued()


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
