"""Which documents does a folder have, and what in it is none?"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path

from shared.ingest.sources import acl


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A document: where it lies, and its path from the folder with `/`, by which it is known."""

    name: str
    path: Path


@dataclass(slots=True)
class Listing:
    """The documents of a folder sorted by name, and the skipped files with the reason.

    Hidden files (.DS_Store) are ignored. `acl_files` are the files that look like access rules.
    """

    files: list[SourceFile] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    acl_files: list[str] = field(default_factory=list)

    def may_contain(self, name: str) -> bool:
        """Whether a document may be there all the same, in a folder that cannot be looked into."""
        parts = name.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))} | {"."}
        return any(place in above for place, _ in self.skipped)


def list_folder(folder: Path) -> Listing:
    """List `folder` and all folders in it. No link is followed."""
    found = Listing()
    for path in sorted(_walk(folder, found), key=lambda path: path.as_posix()):
        name = path.relative_to(folder).as_posix()
        if acl.ACL_FILE_LOOKALIKE.fullmatch(path.name):
            found.acl_files.append(name)
        elif path.name.startswith("."):
            continue
        elif reason := _skip_reason(path):
            found.skipped.append((name, reason))
        else:
            found.files.append(SourceFile(name, path))
    return found


def _walk(top: Path, found: Listing) -> Iterator[Path]:
    """The files below a folder, in no order, however deep they lie."""
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            found.skipped.append((folder.relative_to(top).as_posix(), f"{error.strerror}."))
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield folder / entry.name
            elif not entry.name.startswith("."):
                folders.append(folder / entry.name)


def _skip_reason(path: Path) -> str | None:
    """Why a file is not read; None where it may be.

    No link is followed: where it leads, other people may read than where it stands.
    """
    try:
        kind = path.lstat().st_mode
    except OSError as error:
        return f"It cannot be opened: {error.strerror}."
    if stat.S_ISLNK(kind):
        return "It is a link."
    return None if stat.S_ISREG(kind) else "It is no regular file."


def compute_fingerprint(file: SourceFile, *made_of: str) -> str:
    """What changes with a file's content, and with whatever else its passages are made of.

    Raises OSError.
    """
    begun = sha256("\0".join(made_of).encode("utf-8", "surrogatepass"))
    with file.path.open("rb") as data:
        return file_digest(data, lambda: begun).hexdigest()
