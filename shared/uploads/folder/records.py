"""The files of an upload on disk, which the app and the reading process share.

Each upload has a folder, `<owner's hash>/<id>`. Each file in it has one writer, so that none
overwrites what another has changed: the app writes the record, the content and the marks, and the
reading process the result.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from shared.uploads.base import Upload, is_upload_id
from shared.uploads.records import Record, Result, content_name, make_upload, owner_key

M = TypeVar("M", bound=BaseModel)

INDEX = "index.db"  # the index of all uploads, beside the owners' folders
PRIVATE = 0o700  # of a folder: nobody else on the machine reads the documents

_RECORD, _RESULT, _DELETED = "record.json", "result.json", "deleted"
_UNQUEUED = "unqueued"  # the mark of an upload that is stored, and not queued yet
_DAY = ".day-"  # the start of the name of a file that has a byte for each upload of a day
_DRAFT = ".draft-"  # the start of the name of an incomplete upload's folder


@dataclass(frozen=True, slots=True)
class UploadFolder:
    """The folder of an upload."""

    path: Path

    @property
    def id(self) -> str:
        """The id of the upload."""
        return self.path.name

    @property
    def is_deleted(self) -> bool:
        """Whether its owner has deleted it."""
        return (self.path / _DELETED).exists()

    def mark_deleted(self) -> None:
        """Hide it from now on. Raises OSError."""
        (self.path / _DELETED).touch()

    def mark_unqueued(self) -> None:
        """Keep it from being read until `mark_queued`. Raises OSError."""
        (self.path / _UNQUEUED).touch()

    def mark_queued(self) -> None:
        """Let it be read; without effect if it is removed. Raises OSError."""
        (self.path / _UNQUEUED).unlink(missing_ok=True)

    def unqueued_since(self) -> float | None:
        """The time since which it waits to be queued, None if it is. Raises OSError."""
        with suppress(FileNotFoundError):
            return (self.path / _UNQUEUED).stat().st_mtime
        return None

    def remove(self) -> None:
        """Delete the folder: the mark of the deletion last. Raises OSError."""
        for entry in self.path.iterdir():
            if entry.name != _DELETED:
                entry.unlink()
        shutil.rmtree(self.path)

    def content(self, name: str) -> Path:
        """The path of the file; its suffix is that of the name, by which readers are chosen."""
        return self.path / content_name(name)

    def read(self) -> Upload | None:
        """Return the upload, None if it is deleted or incomplete. Raises OSError."""
        record = _read(self.path / _RECORD, Record)
        if record is None or self.is_deleted:
            return None
        return make_upload(self.id, record, self.read_result())

    def read_result(self) -> Result:
        """Return what became of it. Raises OSError."""
        return _read(self.path / _RESULT, Result) or Result()

    def write_record(self, record: Record) -> None:
        """Write the record of a new upload. Raises OSError."""
        _write(self.path / _RECORD, record)

    def write_result(self, result: Result) -> None:
        """Write what became of it. Raises OSError, FileNotFoundError if the upload is removed."""
        _write(self.path / _RESULT, result)


def list_owners(root: Path) -> list[Path]:
    """Return the folders of all owners. Raises OSError."""
    return _subfolders(root)


def list_folders(root: Path) -> Iterator[UploadFolder]:
    """Yield the folders of all uploads, also of deleted ones. Raises OSError."""
    for owner in list_owners(root):
        yield from list_owner(owner)


def list_owner(folder: Path) -> Iterator[UploadFolder]:
    """Yield the folders of an owner's uploads, also of deleted ones. Raises OSError."""
    for path in _subfolders(folder):
        if is_upload_id(path.name):
            yield UploadFolder(path)


def count_entries(owner: Path) -> int:
    """Return the number of an owner's uploads, deleted and incomplete ones too. Raises OSError."""
    return sum(1 for _ in owner.iterdir())


def has_uploads(owner: Path) -> bool:
    """Whether an owner has uploads, maybe deleted ones. Raises OSError."""
    with suppress(FileNotFoundError):
        return any(is_upload_id(path.name) for path in owner.iterdir())
    return False


def count_drafts(owner: Path) -> int:
    """Return the number of an owner's incomplete uploads. Raises OSError."""
    return sum(path.name.startswith(_DRAFT) for path in owner.iterdir())


def count_day(owner: Path, day: date) -> int:
    """Return the number of uploads that an owner has made on a day. Raises OSError."""
    with suppress(FileNotFoundError):
        return (owner / f"{_DAY}{day}").stat().st_size
    return 0


def add_to_day(owner: Path, day: date) -> None:
    """Count an upload of an owner. Raises OSError."""
    with (owner / f"{_DAY}{day}").open("ab") as file:
        file.write(b".")


def remove_other_days(owner: Path, day: date) -> None:
    """Delete the numbers of an owner's uploads on other days. Raises OSError."""
    for path in owner.glob(f"{_DAY}*"):
        if path.name != f"{_DAY}{day}":
            path.unlink()


def list_drafts(owner: Path) -> list[Path]:
    """Return the folders of an owner's incomplete uploads. Raises OSError."""
    return [path for path in _subfolders(owner) if path.name.startswith(_DRAFT)]


def owner_folder(root: Path, owner: str) -> Path:
    """The folder of an owner's uploads. Its name is no oid."""
    return root / owner_key(owner)


def make_draft(folder: Path) -> UploadFolder:
    """Make the folder of an incomplete upload of an owner. Raises OSError."""
    path = folder / f"{_DRAFT}{secrets.token_hex(8)}"
    for each in (folder.parent, folder, path):
        each.mkdir(PRIVATE, parents=True, exist_ok=True)
    return UploadFolder(path)


def _subfolders(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        entries = sorted(folder.iterdir())
        return [path for path in entries if path.is_dir() and not path.is_symlink()]
    return []


def _read(path: Path, model: type[M]) -> M | None:
    """Read a file; None if there is none, or if it is damaged. Raises OSError."""
    with suppress(FileNotFoundError, ValidationError):
        return model.model_validate_json(path.read_bytes())
    return None


def _write(path: Path, value: BaseModel) -> None:
    """Write a file atomically."""
    part = path.with_suffix(".part")
    part.write_text(value.model_dump_json(), "utf-8")
    part.replace(path)
