"""Who may read a file by access lists, against the algorithm that Microsoft documents."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.acl import DocumentReaders
from ingest.storage.access_list import InvalidAccessList, find_readers, parse_access_list

USERS = tuple(f"0000000{digit}-0000-4000-8000-00000000000a" for digit in (1, 2))
GROUPS = tuple(f"0000000{digit}-0000-4000-8000-00000000000b" for digit in (1, 2))
ANNA, BEN = USERS
STAFF, BOARD = GROUPS
PERMISSIONS = st.sampled_from(["---", "r--", "--x", "r-x", "rwx"])

Entries = Mapping[tuple[str, str], str]


@st.composite
def path_lists(draw: st.DrawFn) -> tuple[Entries, str, str]:
    """The entries of a path, its owner and its owning group."""
    keys = [("user", ""), ("group", ""), ("other", "")]
    named = [("mask", ""), *(("user", id) for id in USERS), *(("group", id) for id in GROUPS)]
    keys += draw(st.lists(st.sampled_from(named), unique=True))
    owner = draw(st.sampled_from(["$superuser", *USERS]))
    group = draw(st.sampled_from(["$superuser", *GROUPS]))
    return {key: draw(PERMISSIONS) for key in keys}, owner, group


def to_text(entries: Entries) -> str:
    return ",".join(f"{kind}:{id}:{value}" for (kind, id), value in entries.items())


def is_allowed(path: tuple[Entries, str, str], user: str, member: set[str], right: str) -> bool:
    """The access check of the documentation of Data Lake Storage."""
    entries, owner, owning_group = path
    mask = entries.get(("mask", ""), "rwx")
    if user == owner:
        return right in entries["user", ""]
    if ("user", user) in entries:
        return right in entries["user", user] and right in mask
    groups = {("group", id) for id in member} & entries.keys()
    if owning_group in member:
        groups.add(("group", ""))
    if groups:
        return right in mask and any(right in entries[key] for key in groups)
    return right in entries["other", ""] and right in mask


@given(path_lists(), st.lists(path_lists(), max_size=2))
def test_whoever_is_named_may_read_the_file(
    file: tuple[Entries, str, str], folders: list[tuple[Entries, str, str]]
) -> None:
    lists = [parse_access_list(to_text(entries), *owners) for entries, *owners in folders]
    entries, *owners = file
    readers = find_readers(parse_access_list(to_text(entries), *owners), lists)
    sizes = range(len(GROUPS) + 1)
    for members in chain.from_iterable(combinations(GROUPS, size) for size in sizes):
        for user in USERS:
            if readers and (user in readers.oids or set(members) & set(readers.groups)):
                assert is_allowed(file, user, set(members), "r")
                assert all(is_allowed(each, user, set(members), "x") for each in folders)


PASS = f"user::rwx,user:{ANNA}:--x,group::r-x,group:{STAFF}:--x,other::--x"


@pytest.mark.parametrize(
    ("file", "folder", "owners", "readers"),
    [
        (f"group:{STAFF}:r--", PASS, (), DocumentReaders((), (STAFF,))),
        (f"user:{ANNA}:r--,group:{STAFF}:r--", PASS, (), DocumentReaders((ANNA,), (STAFF,))),
        (f"user:{ANNA}:r--,mask::---", PASS, (), None),
        (f"group:{BOARD}:r--", PASS, (), None),  # the board may pass only as `other`
        (f"user:{ANNA}:---,group:{STAFF}:r--", PASS, (), None),  # Anna may be of the staff
        (f"group:{STAFF}:r--", PASS.replace(f"{ANNA}:--x", f"{ANNA}:r--"), (), None),
        (f"user:{ANNA}:-w-,user:{BEN}:r--", PASS.replace(ANNA, BEN), (), DocumentReaders((BEN,))),
        ("", PASS, (ANNA, STAFF), DocumentReaders((ANNA,), (STAFF,))),
        ("mask::---", PASS, (ANNA, STAFF), DocumentReaders((ANNA,))),  # not the owner's
        (f"group:{STAFF}:r--", PASS, ("$superuser", STAFF), DocumentReaders((), (STAFF,))),
        ("", f"{PASS},default:user:{BEN}:---", (ANNA.upper(), "x"), DocumentReaders((ANNA,))),
    ],
)
def test_readers_of_a_file(
    file: str, folder: str, owners: tuple[str, ...], readers: DocumentReaders | None
) -> None:
    text = "user::rw-,group::r--,other::r--" + (f",{file}" if file else "")
    root = ("$superuser", "$superuser")
    above = parse_access_list(folder, *root)

    assert find_readers(parse_access_list(text, *(owners or root)), [above]) == readers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "user::rwx",
        "user::rwx,group::r-x,other::read",
        "user::rwx,group::r-x,other::---,role:x:r--",
        f"user::rwx,group::r-x,other::---,user:{ANNA}:r--,user:{ANNA}:---",
        f"user::rwx,group::r-x,other::---,user:{ANNA}:r--,user:{ANNA.upper()}:---",
        "user::rwx;group::r-x;other::---",
        f"user::rwx,group::r-x,other::---,user:anna@contoso.com:---,group:{STAFF}:r--",
    ],
)
def test_list_of_another_form_is_invalid(text: str) -> None:
    with pytest.raises(InvalidAccessList):
        parse_access_list(text, ANNA, STAFF)


@pytest.mark.parametrize("owner", ["", "anna@contoso.com", "$web"])
def test_unknown_owner_makes_a_list_invalid(owner: str) -> None:
    with pytest.raises(InvalidAccessList):
        parse_access_list(f"user::---,group::r--,other::---,group:{STAFF}:r--", owner, STAFF)
