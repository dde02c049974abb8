"""Lists the documents of a folder, and the files that are skipped."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath

from ingest import acl
from ingest.secrets import describe_secret

# Written by the programs that show folders: no reader of the folder misses them.
_SYSTEM_FILES = {".DS_Store", ".localized", ".directory", "Thumbs.db", "desktop.ini"}
_RESOURCE_FORK = "._"  # macOS puts one beside each file that it copies to another file system


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A document."""

    name: str  # its path in the folder with `/`, by which the index knows it
    path: Path


@dataclass(slots=True)
class Listing:
    """The documents of a folder and the skipped files."""

    files: list[SourceFile] = field(default_factory=list)  # sorted by name
    skipped: list[tuple[str, str]] = field(default_factory=list)  # with the reason
    acl_files: list[str] = field(default_factory=list)  # those that look like access rules

    def may_contain(self, name: str) -> bool:
        """Whether the document may exist in a folder that could not be read."""
        parents = {str(folder) for folder in PurePosixPath(name).parents}  # "." is the last one
        return any(path in parents for path, _ in self.skipped)


def list_folder(folder: Path) -> Listing:
    """List the files of `folder` and its subfolders. Links are not followed."""
    listing = Listing()
    for path in sorted(_walk(folder, listing), key=lambda path: path.as_posix()):
        name = path.relative_to(folder).as_posix()
        if path.name in _SYSTEM_FILES or path.name.startswith(_RESOURCE_FORK):
            continue
        if acl.ACL_FILE_LOOKALIKE.fullmatch(path.name):
            listing.acl_files.append(name)
            if name != acl.ACL_FILE:
                listing.skipped.append((name, "Its name is one of access rules."))
        elif reason := _skip_reason(path):
            listing.skipped.append((name, reason))
        else:
            listing.files.append(SourceFile(name, path))
    return listing


def _walk(top: Path, listing: Listing) -> Iterator[Path]:
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


def compute_fingerprint(file: SourceFile, *inputs: str) -> str:
    """Hash a file's content and the other inputs of its passages. Raises OSError."""
    digest = sha256("\0".join(inputs).encode("utf-8", "surrogatepass"))
    with file.path.open("rb") as data:
        return file_digest(data, lambda: digest).hexdigest()
