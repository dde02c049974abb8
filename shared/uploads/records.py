"""The records of an upload, and the names by which each store keeps it.

Each record has one writer, so that none overwrites what another has changed: the app writes the
record of a new upload and the mark of its deletion, and what reads uploads writes the result.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict

from shared.uploads.base import State, Upload, UploadLimits
from shared.uploads.limits import check_size

_SUFFIX = re.compile(r"\.[a-z0-9]{1,10}")


class Record(BaseModel):
    """What is known of an upload when it is stored: fields of `Upload`.

    An upload whose record lacks a field is removed: a new field needs a default.
    """

    model_config = ConfigDict(frozen=True)

    owner: str
    name: str
    size: int
    created: float
    digest: str = ""
    replaces: bool = False


class Result(BaseModel):
    """What became of an upload."""

    model_config = ConfigDict(frozen=True)

    state: State = "queued"
    reason: str = ""
    attempts: int = 0  # to read it
    given_up: float | None = None  # in seconds since 1970: for a day it is tried again


class RecordBuilder:
    """The record of an upload whose file is being written."""

    def __init__(self, record: Record, limits: UploadLimits) -> None:
        """`record` has the owner and the name."""
        self._record, self._limits = record, limits
        self._size, self._digest = 0, sha256()

    def add(self, data: bytes) -> None:
        """Count bytes of the file. Raises TooLarge."""
        self._size += len(data)
        check_size(self._record.name, self._size, self._limits)
        self._digest.update(data)

    def build(self, replaces: bool) -> Record:
        """Return the record of the whole file."""
        known = {"size": self._size, "created": time.time(), "digest": self._digest.hexdigest()}
        return self._record.model_copy(update={**known, "replaces": replaces})


def make_upload(id: str, record: Record, result: Result) -> Upload:
    """Return the upload that has these records."""
    return Upload(id, **dict(record), state=result.state, reason=result.reason)


def content_name(name: str) -> str:
    """The name of the file in a store: with the suffix of its own, by which readers are chosen."""
    suffix = PurePosixPath(name).suffix.lower()
    return f"content{suffix if _SUFFIX.fullmatch(suffix) else ''}"


def owner_key(owner: str) -> str:
    """The name of what an owner has in a store, which is no oid."""
    return sha256(owner.encode()).hexdigest()[:32]


def utc_day(seconds: float) -> date:
    """Return the day of a time since 1970."""
    return datetime.fromtimestamp(seconds, UTC).date()
