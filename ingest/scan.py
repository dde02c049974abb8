"""Lists the documents of a folder, and the files that are skipped.

Documents elsewhere have the same interface: see `ingest/storage/`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from typing import Any, Generic, Protocol, TypeVar

from ingest import acl
from ingest.document import UnreadableDocument, too_large_message
from ingest.secrets import describe_secret

# Written by the programs that show folders: no reader of the folder misses them.
_SYSTEM_FILES = {".DS_Store", ".localized", ".directory", "Thumbs.db", "desktop.ini"}
_RESOURCE_FORK = "._"  # macOS puts one beside each file that it copies to another file system


class SourceFile(Protocol):
    """A document in the place where it is kept.

    The methods raise OSError, UnreadableDocument with the reason for skipping the file, and
    ChatError where the place fails.
    """

    @property
    def name(self) -> str:
        """Its path in the folder with `/`, by which the index knows it."""
        ...

    async def compute_fingerprint(self, max_bytes: int, *inputs: str) -> str:
        """Hash what tells a changed content, and the other inputs of the passages.

        A file of more than `max_bytes` bytes is unreadable.
        """
        ...

    async def fetch(self) -> Path:
        """Return the path of its content, which is kept until `release`."""
        ...

    def release(self) -> None:
        """Delete what `fetch` has made."""
        ...


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A document in a folder."""

    name: str
    path: Path

    async def compute_fingerprint(self, max_bytes: int, *inputs: str) -> str:
        """Hash the content and the inputs."""
        if self.path.stat().st_size > max_bytes:  # before it is read to be hashed
            raise UnreadableDocument(too_large_message(max_bytes))
        return await asyncio.to_thread(self._hash, *inputs)

    def _hash(self, *inputs: str) -> str:
        digest = hash_inputs(*inputs)
        with self.path.open("rb") as data:
            return file_digest(data, lambda: digest).hexdigest()

    async def fetch(self) -> Path:
        return self.path

    def release(self) -> None:
        """Do nothing: the file stays where it is."""


def hash_inputs(*inputs: str) -> Any:
    """Begin a fingerprint with the inputs of a file's passages."""
    return sha256("\0".join(inputs).encode("utf-8", "surrogatepass"))


FileT_co = TypeVar("FileT_co", bound=SourceFile, covariant=True)


@dataclass(slots=True)
class Listing(Generic[FileT_co]):
    """The documents of a folder and the skipped files."""

    files: list[FileT_co] = field(default_factory=list)  # sorted by name
    skipped: list[tuple[str, str]] = field(default_factory=list)  # with the reason
    acl_files: list[str] = field(default_factory=list)  # those that look like access rules

    def add_rules(self, name: str) -> bool:
        """Add a file if its name is one of access rules. Returns whether it is."""
        if not acl.ACL_FILE_LOOKALIKE.fullmatch(PurePosixPath(name).name):
            return False
        self.acl_files.append(name)
        if name != acl.ACL_FILE:
            self.skipped.append((name, "Its name is one of access rules."))
        return True

    def may_contain(self, name: str) -> bool:
        """Whether the document may exist in a folder that could not be read."""
        parents = {str(folder) for folder in PurePosixPath(name).parents}  # "." is the last one
        return any(path in parents for path, _ in self.skipped)


def is_system_file(name: str) -> bool:
    """Whether a program that shows folders wrote the file of this name, without its folder."""
    return name in _SYSTEM_FILES or name.startswith(_RESOURCE_FORK)


def list_folder(folder: Path) -> Listing[FolderFile]:
    """List the files of `folder` and its subfolders. Links are not followed."""
    listing = Listing[FolderFile]()
    for path in sorted(_walk(folder, listing), key=lambda path: path.as_posix()):
        name = path.relative_to(folder).as_posix()
        if is_system_file(path.name):
            continue
        if listing.add_rules(name):
            continue
        if reason := _skip_reason(path):
            listing.skipped.append((name, reason))
        else:
            listing.files.append(FolderFile(name, path))
    return listing


def _walk(top: Path, listing: Listing[FolderFile]) -> Iterator[Path]:
    """Yield the files below a folder, unsorted; iterative, as folders may be nested deeply."""
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            listing.skipped.append((folder.relative_to(top).as_posix(), f"{error.strerror}."))
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield folder / entry.name
            elif entry.name.startswith("."):
                name = (folder / entry.name).relative_to(top).as_posix()
                listing.skipped.append((name, "It is a hidden folder."))
            else:
                folders.append(folder / entry.name)


def _skip_reason(path: Path) -> str | None:
    """The reason for skipping a file, or None.

    Links are skipped, as other people may have access to their target.
    """
    if path.name.startswith("."):
        return "It is hidden."
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return "It is a link."
        return describe_secret(path) if stat.S_ISREG(mode) else "It is no regular file."
    except OSError as error:
        return f"It cannot be opened: {error.strerror}."
