"""The command over Data Lake Storage: only who may read a file by its access list finds it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from azure.storage.filedatalake.aio import FileSystemClient

from ingest.storage.access_rules import FLAT_ACCOUNT, AccessListReader
from ingest.storage.address import parse_address
from shared.bootstrap.local_settings import UsageError
from shared.domain.errors import Misconfigured
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.sqlite.retriever import SqliteRetriever
from tests.support.azurite import AzuriteCredential, AzuriteHome
from tests.support.fake_data_lake import FakeDataLake, PathList, storage_error
from tests.support.ingest_storage import index_storage

Run = Callable[..., CompletedProcess[str]]
ANNA, BEN, STAFF, BOARD = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "1234")
FOLDER = PathList(f"user::rwx,user:{ANNA}:--x,group::r-x,group:{STAFF}:--x,mask::rwx,other::--x")


def file_list(entries: str) -> PathList:
    return PathList(f"user::rw-,group::r--,{entries},other::---")


LISTS = {
    "": FOLDER,
    "hr": FOLDER,
    "hr/staff.md": file_list(f"group:{STAFF}:r--,mask::r--"),
    "hr/anna.md": file_list(f"user:{ANNA}:r--,mask::r--"),
    "hr/masked.md": file_list(f"user:{ANNA}:rwx,group:{STAFF}:rwx,mask::-wx"),
    "hr/others.md": PathList("user::rw-,group::r--,other::r--"),
    "hr/owned.md": PathList("user::rw-,group::---,mask::---,other::---", owner=ANNA),
    "hr/excluded.md": file_list(f"user:{ANNA}:---,group:{STAFF}:r--,mask::r--"),
    "hr/refused.md": PathList("", status=403),
    "hr/odd.md": PathList(f"group:{STAFF}:read"),
    "hr/locked": PathList("", status=403),
    "hr/locked/staff.md": file_list(f"group:{STAFF}:r--,mask::r--"),
    "hr/closed": PathList(f"user::rwx,group::r-x,user:{ANNA}:--x,mask::--x,other::--x"),
    "hr/closed/staff.md": file_list(f"group:{STAFF}:r--,mask::r--"),
    "hr/closed/anna.md": file_list(f"user:{ANNA}:r--,group:{STAFF}:r--,mask::r--"),
    # Above it, the staff may pass only as `other`.
    "hr/board.md": file_list(f"group:{BOARD}:r--,mask::r--"),
}
FILES = {name: f"Parking at {name}.".encode() for name in LISTS if name.endswith(".md")}


@pytest.fixture
def lake(home: AzuriteHome) -> Iterator[FakeDataLake]:
    fake = FakeDataLake(files=dict(FILES), lists=dict(LISTS))
    with home.listening(fake):
        yield fake


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


@pytest.fixture
def run(home: AzuriteHome, lake: FakeDataLake, index: Path) -> Run:
    """Runs the command over the folder `hr`, with these options."""
    return partial(index_storage, home, index, f"{lake.address}/hr")


def visible(index: Path, oid: str, *groups: str) -> set[str]:
    """The documents that a user finds."""
    user = User(oid=oid, groups=groups)
    overrides = Overrides(top=50, use_oid_security_filter=True, use_groups_security_filter=True)
    search = SqliteRetriever(index).search(user, "parking", overrides)
    return {source.sourcefile or "" for source in asyncio.run(search).sources}


def test_users_find_what_the_access_lists_let_them_read(
    lake: FakeDataLake, index: Path, run: Run
) -> None:
    done = run("--permissions")

    assert (done.returncode, done.stderr) == (0, "")
    assert visible(index, ANNA) == {"anna.md", "owned.md", "closed/anna.md"}
    assert visible(index, BEN, STAFF) == {"staff.md"}
    assert visible(index, ANNA, STAFF) == {"anna.md", "closed/anna.md", "owned.md", "staff.md"}
    assert visible(index, BEN, BOARD) == set()
    assert "  refused.md: Its access list, or that of a folder" in done.stdout
    assert "  odd.md: Its access list, or that of a folder" in done.stdout
    assert "  locked/staff.md: Its access list, or that of a folder" in done.stdout
    for name in ("masked", "others", "excluded", "board", "closed/staff"):
        assert f"  {name}.md: By the access lists, no user and no group" in done.stdout


def test_changed_access_lists_change_who_finds_unchanged_files(
    lake: FakeDataLake, index: Path, run: Run
) -> None:
    run("--permissions")
    before = visible(index, BEN, STAFF), visible(index, ANNA)
    lake.lists["hr/staff.md"] = file_list(f"user:{ANNA}:r--,mask::r--")
    lake.lists["hr/anna.md"] = PathList("user::rw-,group::r--,other::---")
    done = run("--permissions")

    assert before == ({"staff.md"}, {"anna.md", "owned.md", "closed/anna.md"})
    assert visible(index, BEN, STAFF) == set()
    assert visible(index, ANNA) == {"staff.md", "owned.md", "closed/anna.md"}
    assert "1 documents put (1 passages), 2 unchanged" in done.stdout


def test_folder_above_the_address_counts(lake: FakeDataLake, index: Path, run: Run) -> None:
    lake.lists[""] = PathList(f"user::rwx,group::r-x,user:{ANNA}:--x,mask::--x,other::--x")
    run("--permissions")

    assert visible(index, ANNA, STAFF) == {"anna.md", "owned.md", "closed/anna.md"}
    assert visible(index, BEN, STAFF) == set()


def test_deleted_file_leaves_the_index(lake: FakeDataLake, index: Path, run: Run) -> None:
    run("--permissions")
    del lake.files["hr/staff.md"]
    done = run("--permissions")

    assert "1 removed" in done.stdout
    assert visible(index, BEN, STAFF) == set()


def test_name_of_rules_is_skipped_where_access_lists_count(
    lake: FakeDataLake, index: Path, run: Run
) -> None:
    lake.files["hr/old/acl.yaml"] = b"x"
    done = run("--permissions")

    assert done.returncode == 0
    assert "  old/acl.yaml: Its name is one of access rules.\n" in done.stdout
    assert visible(index, BEN, STAFF) == {"staff.md"}


def test_content_that_replaced_the_listed_one_has_no_old_readers(
    lake: FakeDataLake, index: Path, run: Run
) -> None:
    lake.listed["hr/staff.md"] = lake.files["hr/staff.md"]
    lake.files["hr/staff.md"] = b"Parking, for the board alone."
    done = run("--permissions")

    assert done.returncode == 0
    assert "  staff.md: It changed while it was read: run this again.\n" in done.stdout
    assert visible(index, BEN, STAFF) == set()


def test_access_lists_are_not_ignored_by_mistake(lake: FakeDataLake, index: Path, run: Run) -> None:
    refused = run()
    is_written = index.exists()
    public = run("--no-rules")

    assert refused.returncode == 1
    assert "the account has access lists. Use --permissions" in refused.stderr
    assert not is_written
    assert public.returncode == 0
    assert visible(index, BEN) == {name.removeprefix("hr/") for name in FILES}


def test_restricted_files_do_not_become_public_by_another_run(
    lake: FakeDataLake, index: Path, run: Run
) -> None:
    run("--permissions")
    lake.is_hierarchical = False
    done = run()

    assert done.returncode == 1
    assert "the index restricts files of this folder" in done.stderr
    assert visible(index, BEN, STAFF) == {"staff.md"}


def test_account_without_access_lists_has_no_permissions(
    lake: FakeDataLake, index: Path, run: Run
) -> None:
    lake.is_hierarchical = False
    done = run("--permissions")

    assert done.returncode == 1
    assert "--permissions needs an account with a hierarchical namespace" in done.stderr


def test_two_kinds_of_rules_are_refused(lake: FakeDataLake, index: Path, run: Run) -> None:
    lake.files["hr/acl.yaml"] = b"'**': {groups: [staff]}"
    both = run("--permissions")
    by_file = run()

    assert both.returncode == 1
    assert "--permissions contradicts acl.yaml" in both.stderr
    assert by_file.returncode == 0
    assert visible(index, BEN, "staff") == {n.removeprefix("hr/") for n in FILES}


@pytest.mark.parametrize("error", [(400, ""), (400, "X"), (409, FLAT_ACCOUNT)])
def test_account_without_access_lists_needs_no_option(
    lake: FakeDataLake, index: Path, run: Run, error: tuple[int, str]
) -> None:
    lake.is_hierarchical, lake.flat_error = False, error
    done = run()

    assert done.returncode == 0
    assert visible(index, BEN) == {n.removeprefix("hr/") for n in FILES}


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ((400, "InvalidHeaderValue"), "does not tell whether the account has access lists"),
        ((404, "FilesystemNotFound"), "does not tell whether the account has access lists"),
        ((403, "AuthorizationPermissionMismatch"), "without access lists: --no-rules"),
    ],
)
def test_answer_that_does_not_tell_is_no_account_without_lists(
    home: AzuriteHome, lake: FakeDataLake, error: tuple[int, str], sentence: str
) -> None:
    lake.is_hierarchical, lake.flat_error = False, error

    async def ask() -> bool:
        ca, address = str(home.folder / "ca.pem"), parse_address(lake.address)
        async with FileSystemClient(
            address.endpoint, address.container, AzuriteCredential(), connection_verify=ca
        ) as container:
            return await AccessListReader(container).has_access_lists()

    with pytest.raises((UsageError, Misconfigured), match=sentence):
        asyncio.run(ask())


@pytest.mark.parametrize("status", [401, 403])
def test_missing_role_ends_the_run_and_changes_nothing(
    lake: FakeDataLake, index: Path, run: Run, status: int
) -> None:
    run("--permissions")
    lake.lists[""] = PathList("", status=status)
    done = run("--permissions")

    assert done.returncode == 1
    assert "the role Storage Blob Data Owner" in done.stderr
    assert visible(index, BEN, STAFF) == {"staff.md"}


def test_outage_ends_the_run_and_changes_nothing(lake: FakeDataLake, index: Path, run: Run) -> None:
    run("--permissions")
    lake.lists["hr/staff.md"] = PathList("", status=500)
    done = run("--permissions")

    assert done.returncode == 1
    assert "storage: status 500" in done.stderr
    assert visible(index, BEN, STAFF) == {"staff.md"}


def test_busy_service_is_asked_again(lake: FakeDataLake, index: Path, run: Run) -> None:
    lake.plan = [storage_error(503, "ServerBusy", **{"retry-after-ms": "1"})] * 2
    done = run("--permissions")

    assert done.returncode == 0
    assert visible(index, BEN, STAFF) == {"staff.md"}
