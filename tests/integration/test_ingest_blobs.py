"""The command over documents in Blob storage: Azurite, with the real SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContentSettings
from azure.storage.blob.aio import ContainerClient

from tests.support.azurite import AzuriteCredential, AzuriteHome, needs_azurite
from tests.support.fake_data_lake import FakeDataLake, storage_error
from tests.support.index_files import search_file
from tests.support.ingest_storage import index_storage

pytestmark = needs_azurite

KEY = b"-----BEGIN PRIVATE KEY-----\n" + b"A" * 64
FILES: Mapping[str, bytes] = {
    "hr/leave.md": b"# Leave\nThirty days.",
    "hr/plans/[a] #1?.md": b"# Plan\nDental.",
    "hr/plans/b.txt": b"Vision.",
    "other/c.md": b"# Other",
}


@pytest.fixture
def upload(home: AzuriteHome, account: str, tmp_path: Path) -> Callable[..., str]:
    """Uploads blobs into the test's own container, or deletes one. Returns its address."""
    container = "c" + str(abs(hash(tmp_path)))

    async def change(blobs: Mapping[str, bytes | None], **more: Any) -> None:
        sizes = {"max_single_put_size": 2**18, "max_block_size": 2**18}
        options: dict[str, Any] = {"connection_verify": home.ca, **sizes}
        async with ContainerClient(account, container, AzuriteCredential(), **options) as client:
            if not await client.exists():
                await client.create_container()
            for name, content in blobs.items():
                if content is None:
                    await client.delete_blob(name)
                else:
                    await client.upload_blob(name, content, overwrite=True, **more)

    def run(blobs: Mapping[str, bytes | None] = FILES, **more: Any) -> str:
        asyncio.run(change(blobs, **more))
        return f"{account}/{container}"

    return run


def find(index: Path, query: str) -> dict[str, str]:
    """The texts that a question finds, by the citation."""
    return {each.sourcepage: each.content for each in search_file(index, query, top=50).sources}


def test_documents_below_the_path_are_indexed(
    home: AzuriteHome, upload: Callable[..., str], tmp_path: Path
) -> None:
    index = tmp_path / "index.db"
    address = upload()
    done = index_storage(home, index, f"{address}/hr")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"3 documents in {address}/hr -> ")
    assert "3 documents put (3 passages), 0 unchanged" in done.stdout
    assert find(index, "dental") == {"plans/%5Ba%5D %231%3F.md": "Plan\n\nDental."}
    assert find(index, "other") == {}


def test_only_changed_documents_are_read_again(
    home: AzuriteHome, upload: Callable[..., str], tmp_path: Path
) -> None:
    index = tmp_path / "index.db"
    address = upload()
    index_storage(home, index, f"{address}/hr")
    again = index_storage(home, index, f"{address}/hr/")
    upload({"hr/leave.md": b"# Leave\nThirty-one days.", "hr/plans/b.txt": None})
    changed = index_storage(home, index, f"{address}/hr")
    pruned = index_storage(home, index, f"{address}/hr", "--prune")

    assert "0 documents put (0 passages), 3 unchanged" in again.stdout
    assert "1 documents put (1 passages), 1 unchanged" in changed.stdout
    assert "1 more are in the index and not in the folder" in changed.stdout
    assert "1 removed" in pruned.stdout
    assert find(index, "leave") == {"leave.md": "Leave\n\nThirty-one days."}
    assert find(index, "vision") == {}


def test_skipped_documents_are_named_with_the_reason(
    home: AzuriteHome, upload: Callable[..., str], tmp_path: Path
) -> None:
    upload({"a.md": b"# A", "empty.md": b"", "large.md": b"x" * 2**21})
    upload({".env": b"A=1", ".git/x/config": b"[core]", ".git/y": b"1", "Thumbs.db": b"1"})
    upload({"key.pfx": b"1", "id.md": KEY, "local.settings.json": b"{}"})
    upload({"a//b.md": b"# B", "folder/": b""})
    upload({"stub": b""}, metadata={"hdi_isfolder": "true"})
    upload({"zip.md": b"x"}, content_settings=ContentSettings(content_encoding="gzip"))
    address = upload({"picture.pdf": b"no PDF"})
    done = index_storage(home, tmp_path / "index.db", address, "--largest", "1")

    assert done.returncode == 0
    assert done.stdout.split("Skipped:\n")[1].splitlines()[:12] == [
        "  .env: It is hidden.",
        "  .git: It is a hidden folder.",
        "  a//b.md: Its name is no path: a part of it is empty, `.` or `..`.",
        "  empty.md: It is empty.",
        "  id.md: It holds a private key.",
        "  key.pfx: It is a store of keys.",
        "  large.md: It is larger than 1 MB.",
        "  local.settings.json: It holds settings of an app, which may be secret.",
        "  picture.pdf: Its content is not what its name says.",
        "  zip.md: It is stored in the encoding gzip.",
    ]


def test_rules_in_the_container_are_obeyed(
    home: AzuriteHome, upload: Callable[..., str], tmp_path: Path
) -> None:
    index = tmp_path / "index.db"
    address = upload({**FILES, "hr/acl.yaml": b"plans/**: {groups: [board]}"})
    done = index_storage(home, index, f"{address}/hr")
    below = index_storage(home, tmp_path / "b.db", f"{address}/hr/plans")
    public = index_storage(home, tmp_path / "b.db", f"{address}/hr/plans", "--no-rules")
    contradiction = index_storage(home, index, f"{address}/hr", "--no-rules")
    upload({"hr/acl.yaml": None})
    missing = index_storage(home, index, f"{address}/hr")
    upload({"hr/plans/acl.yaml": b"'**': {groups: [board]}"})
    misplaced = index_storage(home, index, f"{address}/hr")

    assert done.returncode == 0
    assert find(index, "leave") == {"leave.md": "Leave\n\nThirty days."}
    assert find(index, "dental vision") == {}
    assert (
        below.returncode == public.returncode == contradiction.returncode == missing.returncode == 1
    )
    assert "has rules for this folder too, in hr/acl.yaml" in below.stderr
    assert public.stderr == below.stderr
    assert "--no-rules contradicts acl.yaml" in contradiction.stderr
    assert "acl.yaml is missing or restricts no file" in missing.stderr
    assert "plans/acl.yaml would not be obeyed" in misplaced.stderr


def test_rules_that_are_a_folder_end_the_run(
    home: AzuriteHome, upload: Callable[..., str], tmp_path: Path
) -> None:
    upload()
    address = upload({"hr/acl.yaml": b""}, metadata={"hdi_isfolder": "true"})
    done = index_storage(home, tmp_path / "index.db", f"{address}/hr")

    assert done.returncode == 1
    assert done.stderr == "acl.yaml is no file that can be read.\n"


def test_container_of_the_app_is_no_place_of_documents(
    home: AzuriteHome, account: str, upload: Callable[..., str], tmp_path: Path
) -> None:
    address = upload()
    own = {
        "AZURE_STORAGE_ENDPOINT": account,
        "AZURE_STORAGE_CONTAINER": address.rpartition("/")[2],
    }
    done = index_storage(home, tmp_path / "index.db", f"{address}/hr", "--no-rules", **own)

    assert done.returncode == 1
    assert "is in the container of AZURE_STORAGE_CONTAINER" in done.stderr


def test_broken_rules_end_the_run(
    home: AzuriteHome, upload: Callable[..., str], tmp_path: Path
) -> None:
    address = upload({**FILES, "acl.yaml": b"hr/**: {groups: board}"})
    done = index_storage(home, tmp_path / "index.db", address)

    assert done.returncode == 1
    assert done.stderr.startswith("acl.yaml: hr/**.groups: ")
    assert not (tmp_path / "index.db").exists()


def test_missing_container_and_empty_folder_are_named(
    home: AzuriteHome, account: str, upload: Callable[..., str], tmp_path: Path
) -> None:
    index = tmp_path / "index.db"
    missing = index_storage(home, index, f"{account}/nothing/hr")
    address = upload()
    index_storage(home, index, f"{address}/hr")
    empty = index_storage(home, index, f"{address}/hr/none", "--prune")

    assert missing.returncode == empty.returncode == 1
    assert missing.stderr == f"{account}/nothing/hr: there is no such container.\n"
    assert empty.stderr == f"{address}/hr/none has no documents.\n"
    assert find(index, "leave")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["https://contoso.blob.core.windows.net/docs?sig=secret"], "leave out of the address"),
        (["https://contoso.blob.core.windows.net/docs", "--indexer"], "--indexer is for a folder"),
        (["docs", "--permissions"], "--permissions is for documents in Data Lake Storage"),
        (
            ["https://contoso.blob.core.windows.net/docs", "--permissions", "--no-rules"],
            "--permissions and --no-rules contradict each other",
        ),
        (["contoso.blob.core.windows.net/docs?sig=secret"], "is neither a folder nor an address"),
        (["https:/contoso/docs?sig=secret"], "is neither a folder nor an address"),
    ],
)
def test_wrong_arguments_are_refused(
    home: AzuriteHome, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = index_storage(home, tmp_path / "index.db", *arguments)

    assert done.returncode == 2
    assert message in done.stderr
    assert "secret" not in done.stderr


@pytest.fixture
def flat(home: AzuriteHome) -> Iterator[FakeDataLake]:
    """An account without access lists, whose responses a test can plan."""
    fake = FakeDataLake(files={"a.md": b"# A", "b.md": b"# B"}, is_hierarchical=False)
    with home.listening(fake):
        yield fake


def test_name_that_leaves_the_folder_is_skipped(
    home: AzuriteHome, flat: FakeDataLake, tmp_path: Path
) -> None:
    flat.files |= {"../c.md": b"# C", "d/./e.md": b"# E"}
    done = index_storage(home, tmp_path / "index.db", flat.address)

    assert done.returncode == 0
    assert [line.split(":")[0] for line in done.stdout.splitlines()[3:]] == [
        "  ../c.md",
        "  d/./e.md",
    ]


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("BlobNotFound", 404, "It was deleted during the run."),
        ("BlobArchived", 409, "It is in the archive tier."),
        ("ConditionNotMet", 412, "It changed while it was read: run this again."),
    ],
)
def test_blob_that_cannot_be_read_is_skipped(
    home: AzuriteHome, flat: FakeDataLake, tmp_path: Path, code: str, status: int, reason: str
) -> None:
    flat.failures["a.md"] = storage_error(status, code)
    done = index_storage(home, tmp_path / "index.db", flat.address)

    assert done.returncode == 0
    assert "1 documents put (1 passages), 0 unchanged, 1 unreadable" in done.stdout
    assert f"  a.md: {reason}\n" in done.stdout


def test_outage_during_the_run_keeps_the_index(
    home: AzuriteHome, flat: FakeDataLake, tmp_path: Path
) -> None:
    index = tmp_path / "index.db"
    index_storage(home, index, flat.address)
    flat.files["a.md"] = b"# A, again"
    flat.failures["a.md"] = storage_error(500, "InternalError", **{"retry-after-ms": "1"})
    failed = index_storage(home, index, flat.address)
    kept = find(index, "a")
    del flat.failures["a.md"]
    done = index_storage(home, index, flat.address)

    assert failed.returncode == 1
    assert "storage: status 500" in failed.stderr
    assert kept["a.md"] == "A"
    assert "1 documents put (1 passages), 1 unchanged" in done.stdout


def test_copies_are_deleted(home: AzuriteHome, flat: FakeDataLake, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    done = index_storage(home, tmp_path / "index.db", flat.address, TMPDIR=str(copies))
    flat.files["b.md"] = b"# B, again"
    flat.failures["b.md"] = storage_error(500, "InternalError", **{"retry-after-ms": "1"})
    failed = index_storage(home, tmp_path / "index.db", flat.address, TMPDIR=str(copies))

    assert (done.returncode, failed.returncode) == (0, 1)
    assert list(copies.iterdir()) == []


def test_missing_role_is_named(home: AzuriteHome, flat: FakeDataLake, tmp_path: Path) -> None:
    flat.plan = [storage_error(403, "AuthorizationPermissionMismatch")]
    done = index_storage(home, tmp_path / "index.db", flat.address)

    assert done.returncode == 1
    assert "needs the role Storage Blob Data Reader" in done.stderr


def test_unchanged_blobs_are_not_downloaded(
    home: AzuriteHome, flat: FakeDataLake, tmp_path: Path
) -> None:
    index_storage(home, tmp_path / "index.db", flat.address)
    flat.requests.clear()
    index_storage(home, tmp_path / "index.db", flat.address)

    assert [each.path.split("?")[0] for each in flat.requests if each.method == "GET"] == [
        "/account/docs"
    ]
