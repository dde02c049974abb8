"""Which file may a link mean? A citation's path, decoded, against the names that the index knows.

An index has percent-encoded what has a meaning in a citation; nothing here leads out of a folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.chat.citation_paths import MAX_PATH_LENGTH, decode_path, encode_path

_SLASH = re.compile(r"%2F", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileName:
    """A file's `name` in its folder, and the `sourcefile` that the index knows it by."""

    name: str
    sourcefile: str


def candidates(link_path: str) -> tuple[FileName, ...]:
    """The files that a link's path may mean, the likeliest first; none where it leads elsewhere.

    `given` is decoded once, but for `%2F`, which hosts hand over as it is. A client that encodes
    the citation once more hands over the very `sourcefile`.
    """
    paths = dict.fromkeys((_SLASH.sub("/", link_path), link_path))
    names = (name for path in paths for name in (FileName(path, encode_path(path)), _twice(path)))
    return tuple(dict.fromkeys(name for name in names if _inside(name.name)))


def _twice(path: str) -> FileName:
    name = decode_path(path)
    # Only what the index itself would have made: no second spelling of a name.
    return FileName(name, path) if encode_path(name) == path else FileName(path, encode_path(path))


def _inside(name: str) -> bool:
    """Whether a name can be a file's below the top folder, on any system."""
    climbs = any(part in ("", ".", "..") for part in name.split("/"))
    # A backslash parts names on some systems; elsewhere it is a letter like others.
    climbs |= ".." in name.replace("\\", "/").split("/")
    return not climbs and len(name) <= MAX_PATH_LENGTH and "\0" not in name
