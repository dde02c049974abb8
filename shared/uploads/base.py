"""The protocol of a store of uploads, and their names.

An upload belongs to its owner. One that is missing, deleted or another owner's raises NotFound.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shared.domain.errors import BadRequest
from shared.domain.events import decode_path, encode_path
from shared.files.base import File

State = Literal["queued", "reading", "ready", "failed"]

CATEGORY = "uploads"
"""The category of the passages of all uploads."""

MAX_NAME = 200  # characters; the names of most file systems have 255 bytes
NO_UPLOAD = "There is no such upload."

_ID = re.compile(r"upload-[a-z2-7]{16}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(frozen=True, slots=True)
class Upload:
    """A document of a user."""

    id: str
    owner: str
    name: str  # the file's, without a folder
    size: int  # in bytes
    created: float  # in seconds since 1970
    digest: str = ""  # SHA-256 of the content, in hexadecimal digits
    replaces: bool = False  # earlier ones of the same name, when it is ready
    state: State = "queued"
    reason: str = ""  # why it failed: a sentence

    @property
    def is_finished(self) -> bool:
        """Whether reading it has ended, well or not."""
        return self.state in ("ready", "failed")

    @property
    def order(self) -> tuple[float, str]:
        """The key by which uploads are sorted, the oldest first."""
        return self.created, self.id

    @property
    def path(self) -> str:
        """The name of its document in the index, which is unique."""
        return f"{self.id}/{self.name}"

    @property
    def sourcefile(self) -> str:
        """The path as in a citation."""
        return encode_path(self.path)


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """The limits of uploads."""

    file_bytes: int
    files: int  # of an owner
    files_per_day: int  # of an owner, also if they are deleted; a day ends at midnight UTC


class Draft(Protocol):
    """An upload that is being written. It exists only when it is committed."""

    async def write(self, data: bytes) -> None:
        """Append bytes of the file. Raises TooLarge, Unavailable, Misconfigured."""
        ...

    async def commit(self, replace: bool = False) -> Upload:
        """Store it. It is read after `Uploads.enqueue`.

        With `replace`, it replaces earlier ones of the same name when it is ready. Raises
        Unavailable, Misconfigured.
        """
        ...

    async def discard(self) -> None:
        """Delete what is written. Without effect after `commit`."""
        ...


class Uploads(Protocol):
    """The uploads of all owners. All methods raise Unavailable, Misconfigured."""

    @property
    def limits(self) -> UploadLimits:
        """The limits of uploads."""
        ...

    async def begin(self, owner: str, name: str) -> Draft:
        """Begin an upload. Raises TooManyRequests if its owner has as many as possible."""
        ...

    async def enqueue(self, uploads: Sequence[Upload]) -> None:
        """Queue stored uploads to be read."""
        ...

    async def has_any(self, owner: str) -> bool:
        """Whether an owner may have uploads: False only if there are none. It is fast."""
        ...

    async def get(self, owner: str, ids: Iterable[str]) -> Mapping[str, Upload]:
        """Return those of an owner's uploads that have these ids, by id."""
        ...

    async def list(self, owner: str) -> tuple[Upload, ...]:
        """Return the uploads of an owner, the oldest first."""
        ...

    async def list_ids(self, owner: str) -> tuple[str, ...]:
        """Return the ids of an owner's uploads, also of those whose record is damaged."""
        ...

    async def delete(self, owner: str, id: str) -> None:
        """Delete an upload, also if its record is damaged. Nobody finds it from now on.

        Raises NotFound.
        """
        ...

    async def open(self, id: str) -> File:
        """Open the file of an upload, whoever its owner is. Raises NotFound."""
        ...


def make_id() -> str:
    """Return the id of a new upload."""
    return "upload-" + "".join(secrets.choice(_ALPHABET) for _ in range(16))


def upload_id(sourcefile: str) -> str | None:
    """Return the id of the upload whose document has this name, None if it is no upload's."""
    id, slash, _ = decode_path(sourcefile).partition("/")
    return id if slash and _ID.fullmatch(id) else None


def is_upload_id(id: str) -> bool:
    """Whether a text has the form of an id."""
    return _ID.fullmatch(id) is not None


def clean_name(filename: str) -> str:
    """Return the name of a file without its folder and control characters. Raises BadRequest.

    Some clients send the path of the file on their own system.
    """
    name = unicodedata.normalize("NFC", re.split(r"[/\\]", filename)[-1])
    name = re.sub(r"\s", " ", name)  # macOS names screenshots with other spaces
    name = "".join(char for char in name if char.isprintable()).strip()
    if name in ("", ".", ".."):
        raise BadRequest("must have a file name", field="file")
    if len(name) > MAX_NAME:
        raise BadRequest(f"must have a file name of at most {MAX_NAME} characters", field="file")
    return name
