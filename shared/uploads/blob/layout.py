"""The blobs of uploads: their names and metadata, which the app and what reads uploads share.

    OWNER/ID/contentSUFFIX   the file; the record is its metadata
    OWNER/ID/result          empty; the result is its metadata
    OWNER/ID/deleted         empty; marks the upload as deleted
    OWNER/draft-RANDOM       empty; counts an upload that is being written
    OWNER/day-DATE           has a byte for each upload of a day
    ids/ID                   empty; its metadata names the OWNER, a hash of the owner's id

One listing of an owner tells everything. Each blob has one writer: see `records`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from shared.uploads.base import Upload, is_upload_id
from shared.uploads.limits import DRAFT_SECONDS
from shared.uploads.records import Record, Result, make_upload, owner_key

M = TypeVar("M", bound=BaseModel)

RESULT, DELETED, CONTENT = "result", "deleted", "content"
DRAFT, DAY, IDS = "draft-", "day-", "ids/"
RECORD_KEY, RESULT_KEY, OWNER_KEY = "record", "result", "owner"  # of metadata


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob of a listing."""

    name: str
    size: int  # in bytes
    modified: float  # in seconds since 1970, by the service's clock
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """The blobs of an upload."""

    path: str  # OWNER/ID
    blobs: Mapping[str, StoredBlob]  # by the last part of their names

    @property
    def id(self) -> str:
        """The id of the upload."""
        return self.path.rpartition("/")[2]

    @property
    def owner(self) -> str:
        """The key of its owner."""
        return self.path.partition("/")[0]

    @property
    def content(self) -> StoredBlob | None:
        """The file; None if it is removed."""
        return next((it for name, it in self.blobs.items() if name.startswith(CONTENT)), None)

    @property
    def is_deleted(self) -> bool:
        """Whether its owner has deleted it."""
        return DELETED in self.blobs

    @property
    def is_removed(self) -> bool:
        """Whether it is deleted, or its file is gone."""
        return self.is_deleted or self.content is None

    @property
    def is_discarded(self) -> bool:
        """Whether it is the empty blob of a draft that was not completed: see `BlobDraft`."""
        return self.content is not None and not (self.content.size or self.content.metadata)

    @property
    def result(self) -> Result:
        """What became of it."""
        blob = self.blobs.get(RESULT)
        return (blob and decode(blob.metadata.get(RESULT_KEY), Result)) or Result()

    @property
    def has_failed(self) -> bool:
        """Whether it is not read again: what is given up is."""
        result = self.result
        return result.state == "failed" and result.given_up is None

    @property
    def upload(self) -> Upload | None:
        """The upload, None if it is deleted, or if its record cannot be read."""
        content = self.content
        if self.is_deleted or content is None:
            return None
        record = decode(content.metadata.get(RECORD_KEY), Record)
        if not record or not record.owner or owner_key(record.owner) != self.owner:
            return None
        return make_upload(self.id, record, self.result)


def group(blobs: Iterable[StoredBlob]) -> list[StoredUpload]:
    """Return the uploads whose blobs are listed, also deleted ones, ordered by path."""
    paths: dict[str, dict[str, StoredBlob]] = {}
    for blob in blobs:
        path, _, name = blob.name.rpartition("/")
        if is_upload_id(path.rpartition("/")[2]):
            paths.setdefault(path, {})[name] = blob
    return [StoredUpload(path, paths[path]) for path in sorted(paths)]


def list_drafts(blobs: Iterable[StoredBlob], now: float) -> list[StoredBlob]:
    """Return the marks of incomplete uploads whose requests may still run."""
    return [blob for blob in blobs if is_draft(blob) and blob.modified > now - DRAFT_SECONDS]


def is_draft(blob: StoredBlob) -> bool:
    """Whether a blob is the mark of an incomplete upload."""
    return blob.name.rpartition("/")[2].startswith(DRAFT)


def day_name(owner: str, day: date) -> str:
    """The name of the blob that counts the uploads of a day. `owner` is a key."""
    return f"{owner}/{DAY}{day}"


def upload_path(owner: str, id: str) -> str:
    """The path of the blobs of an upload, by the id of its owner."""
    return f"{owner_key(owner)}/{id}"


def encode(model: BaseModel) -> str:
    """Encode a record as a value of metadata, which is ASCII."""
    return base64.urlsafe_b64encode(model.model_dump_json().encode()).decode("ascii")


def decode(value: str | None, model: type[M]) -> M | None:
    """Decode a value of metadata; None if there is none, or if it is damaged."""
    with suppress(ValidationError, binascii.Error, ValueError):
        return model.model_validate_json(base64.urlsafe_b64decode(value or ""))
    return None
