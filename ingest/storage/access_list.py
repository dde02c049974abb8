"""Computes who may read a file by the access lists of Data Lake Storage.

The lists are those of POSIX: https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-access-control.
Whoever the index names must be allowed by them; where that cannot be known, nobody is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from ingest.acl import DocumentReaders

SUPERUSER = "$superuser"  # an owner that is nobody: what is created with a key
# An object id of Entra ID.
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENTRY = re.compile(r"(user|group|mask|other):([^:]*):([r-][w-][x-])[t+]?")


class InvalidAccessList(ValueError):
    """An access list has another form than documented."""


@dataclass(frozen=True, slots=True)
class AccessList:
    """The permissions of users and groups for one path, such as {"r", "x"}, by object id.

    The mask is applied to them, and the owners are among them.
    """

    users: Mapping[str, Set[str]]
    groups: Mapping[str, Set[str]]


def parse_access_list(text: str, owner: str, group: str) -> AccessList:
    """Parse the value of `x-ms-acl`, for a path with these owners. Raises InvalidAccessList."""
    entries: dict[tuple[str, str], set[str]] = {}
    for entry in text.lower().split(","):
        if entry.startswith("default:"):  # of new files in a directory
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None or match.group(1, 2) in entries:
            raise InvalidAccessList
        kind, id, permissions = match.groups()
        entries[kind, id] = {*permissions} - {"-"}
    if not {("user", ""), ("group", ""), ("other", "")} <= entries.keys():
        raise InvalidAccessList
    mask = entries.get(("mask", ""), {*"rwx"})
    named = {key: value & mask for key, value in entries.items() if key[1]}
    users = {id: value for (kind, id), value in named.items() if kind == "user"}
    groups = {id: value for (kind, id), value in named.items() if kind == "group"}
    # To the owner neither the mask applies, nor an entry with the owner's name.
    users[owner.lower()] = entries["user", ""]
    group = group.lower()
    groups[group] = (entries["group", ""] & mask) | groups.get(group, set())
    users.pop(SUPERUSER, None)
    if not all(map(_ID.fullmatch, users)):
        raise InvalidAccessList  # an unknown user may be in a group, and have less than it
    return AccessList(users, {id: groups[id] for id in groups if _ID.fullmatch(id)})


def find_readers(file: AccessList, folders: Sequence[AccessList]) -> DocumentReaders | None:
    """Return who may read a file below these folders; None if that is nobody for sure.

    A user or a group counts if it has `r` for the file and `x` for each folder. The entry `other`
    grants nothing. If a user has less, no group counts: this user may be in it, and the user's own
    entry takes precedence.
    """
    needed = [(file, "r"), *((folder, "x") for folder in folders)]
    users = _holders((each.users, right) for each, right in needed)
    groups = _holders((each.groups, right) for each, right in needed)
    if any(right not in value for each, right in needed for value in each.users.values()):
        groups = set()
    return DocumentReaders(tuple(sorted(users)), tuple(sorted(groups))) if users | groups else None


def _holders(needed: Iterable[tuple[Mapping[str, Set[str]], str]]) -> set[str]:
    """The ids that have the right in each of these."""
    return set.intersection(
        *({id for id, value in entries.items() if right in value} for entries, right in needed)
    )
