"""The run that reads uploads: states, failures, replacement, and a kill at any moment."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ingest.sandbox import SandboxReader
from ingest.targets.index_writer import IndexUnavailable
from ingest.uploads.__main__ import run
from ingest.uploads.folder import POLL_SECONDS, UNQUEUED_SECONDS, FolderSource
from ingest.uploads.indexer import MAX_ATTEMPTS, STOPPED, make_reader
from shared.settings import SHARED_FOLDER, read_settings
from shared.uploads.base import Upload, UploadLimits
from shared.uploads.folder.records import INDEX, list_folders
from shared.uploads.folder.store import FolderUploads
from tests.support.fake_index_writer import FakePassageReader
from tests.support.moments import Killed, Moments
from tests.support.sample_files import endless_xlsx
from tests.support.servers import LAPTOP
from tests.support.uploads import UploadsFolder

LARGE = UploadLimits(file_bytes=10**6, files=3, files_per_day=3)
DOCUMENTS = SHARED_FOLDER / "data" / "documents"


@pytest.fixture
def folder(tmp_path: Path) -> UploadsFolder:
    return UploadsFolder(tmp_path)


def run_as_the_app(folder: UploadsFolder, **settings: str) -> None:
    """Read and remove with these settings, in the sandbox."""
    values = {**LAPTOP, "CHAT_MODEL": "demo", "EMBEDDINGS": "off", **settings}
    asyncio.run(run(folder.root, read_settings(values)))


def states(folder: UploadsFolder, owner: str = "anna") -> dict[str, tuple[str, str]]:
    return {each.name: (each.state, each.reason) for each in folder.uploads_of(owner)}


def test_upload_is_read_for_its_owner(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")
    folder.run()

    assert states(folder) == {"plan.md": ("ready", "")}
    assert folder.search("anna", "June") == ["June."]
    assert folder.search("ben", "June") == []


def test_files_of_one_name_stay_separate(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "The month is June.")
    folder.add("ben", "plan.md", "The month is July.")
    folder.run()

    assert folder.search("anna", "month") == ["The month is June."]
    assert folder.search("ben", "month") == ["The month is July."]


def test_unreadable_upload_fails_with_the_reason(folder: UploadsFolder) -> None:
    folder.add("anna", "bad.md", "broken")
    folder.add("anna", "good.md", "June.")
    folder.run()

    assert states(folder) == {"bad.md": ("failed", "It is damaged."), "good.md": ("ready", "")}


def test_upload_with_too_many_pages_fails(tmp_path: Path) -> None:
    limits = UploadLimits(file_bytes=10_000, files=3, files_per_day=3)
    folder = UploadsFolder(tmp_path, limits, max_pages=2)
    folder.add("anna", "long.md", "word " * 1300)
    folder.add("anna", "short.md", "word " * 700)
    folder.run()

    reason = "It has 3 pages; an upload may have 2."
    assert states(folder) == {"long.md": ("failed", reason), "short.md": ("ready", "")}


def test_limit_of_pages_is_a_setting(tmp_path: Path) -> None:
    folder = UploadsFolder(tmp_path, UploadLimits(file_bytes=10**6, files=3, files_per_day=3))
    content = (DOCUMENTS / "plans/northwind_health_plus.pdf").read_bytes()
    folder.add("anna", "plan.pdf", content)
    run_as_the_app(folder, MAX_UPLOAD_PAGES="2")

    assert states(folder) == {"plan.pdf": ("failed", "It has 6 pages; an upload may have 2.")}


def test_timeout_names_no_option_that_a_user_does_not_have(folder: UploadsFolder) -> None:
    reader = make_reader(10**6)
    reader.limits = reader.limits.model_copy(update={"timeout": 0.5})
    folder.store = FolderUploads(folder.root, LARGE, lambda: None)
    folder.add("anna", "plan.xlsx", endless_xlsx())
    folder.run(reader)

    assert states(folder) == {"plan.xlsx": ("failed", "It took more than 0.5 seconds.")}


def test_upload_whose_record_is_damaged_is_removed_after_a_day(
    folder: UploadsFolder, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = folder.add("anna", "a.md", "June."), folder.add("anna", "b.md", "July.")
    folder.run()
    next(folder.root.glob(f"*/{bad.id}/record.json")).write_text("{")
    folder.run()
    assert folder.folders() == {good.id, bad.id}
    assert f"the record of {bad.id} is damaged" in caplog.text

    folder.now += 86_460
    folder.run()
    assert folder.folders() == folder.indexed() == {good.id}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("Local.Settings.json", "{}", "It holds settings of an app, which may be secret."),
        ("mine.kdbx", "words", "It is a store of keys."),
        (
            "notes.md",
            "-----BEGIN PRIVATE KEY-----\n" + "A" * 40,
            "It holds a private key.",
        ),
    ],
)
def test_secret_is_refused_as_make_index_does(
    folder: UploadsFolder, name: str, text: str, reason: str
) -> None:
    folder.add("anna", name, text)
    folder.run()

    assert states(folder) == {name: ("failed", reason)}
    assert folder.indexed() == set()


def test_later_upload_replaces_the_earlier_one_when_it_is_ready(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")
    folder.add("ben", "plan.md", "July.")
    folder.run()
    folder.add("anna", "plan.md", "It is June or so.", replace=True)
    assert folder.search("anna", "June") == ["June."]
    folder.run()

    assert folder.search("anna", "June") == ["It is June or so."]
    assert folder.search("ben", "July") == ["July."]
    assert folder.indexed() == folder.folders()


def test_kill_before_the_earlier_one_is_removed_leaves_both_for_the_next_run(
    folder: UploadsFolder,
) -> None:
    class Source(FolderSource):
        async def mark_deleted(self, upload: Upload) -> None:
            raise Killed

    folder.add("anna", "plan.md", "June.")
    folder.run()
    new = folder.add("anna", "plan.md", "It is June or so.", replace=True)
    good, folder.source = folder.source, Source(folder.root)
    with pytest.raises(Killed):
        folder.run()
    assert sorted(folder.search("anna", "June")) == ["It is June or so.", "June."]
    folder.source = good
    folder.run()

    assert folder.search("anna", "June") == ["It is June or so."]
    assert folder.indexed() == folder.folders() == {new.id}


def test_failed_upload_replaces_failed_ones_alone(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")
    folder.run()
    for _ in range(2):
        folder.add("anna", "plan.md", "broken", replace=True)
        folder.run()

    assert [upload.state for upload in folder.uploads_of("anna")] == ["ready", "failed"]
    assert folder.search("anna", "June") == ["June."]


def test_run_without_work_changes_nothing(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")
    folder.run()
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*.db")}
    reader = FakePassageReader()
    folder.run(reader)

    assert reader.read_names == []
    assert {path: path.stat().st_mtime_ns for path in folder.root.rglob("*.db")} == before


def test_lost_index_is_made_again(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")
    folder.run()
    (folder.root / "index.db").unlink()
    folder.run()

    assert folder.search("anna", "June") == ["June."]


def test_order_is_that_of_completion(folder: UploadsFolder) -> None:
    async def go() -> None:
        first = await folder.store.begin("anna", "plan.md")
        second = await folder.store.begin("anna", "plan.md")
        for draft, text in ((second, b"Second plan."), (first, b"First plan.")):
            await draft.write(text)
            await folder.store.enqueue([await draft.commit(replace=True)])

    asyncio.run(go())
    folder.run()

    assert folder.search("anna", "plan") == ["First plan."]


def commit(folder: UploadsFolder, name: str, text: str) -> Upload:
    """Store an upload, which replaces others, without queueing it."""

    async def go() -> Upload:
        draft = await folder.store.begin("anna", name)
        await draft.write(text.encode())
        return await draft.commit(replace=True)

    return asyncio.run(go())


def test_upload_is_not_read_before_it_is_queued(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")
    folder.run()
    later = commit(folder, "plan.md", "July.")
    folder.add("anna", "other.md", "August.")
    folder.run()
    assert states(folder) == {"plan.md": ("queued", ""), "other.md": ("ready", "")}
    assert {*folder.search("anna", "June July August")} == {"June.", "August."}
    asyncio.run(folder.store.enqueue([later]))
    folder.run()

    assert {*folder.search("anna", "June July August")} == {"July.", "August."}


def test_run_waits_for_uploads_that_are_stored_meanwhile(folder: UploadsFolder) -> None:
    upload, waits = commit(folder, "plan.md", "June."), list[float]()

    async def enqueue(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            await folder.store.enqueue([upload])

    folder.run(sleep=enqueue)

    assert waits == [POLL_SECONDS] * 2
    assert states(folder) == {"plan.md": ("ready", "")}


def test_run_waits_for_no_upload_that_is_deleted_meanwhile(folder: UploadsFolder) -> None:
    upload = commit(folder, "plan.md", "June.")

    async def delete(_seconds: float) -> None:
        await folder.store.delete("anna", upload.id)

    folder.run(sleep=delete)

    assert folder.folders() == set()


@pytest.mark.parametrize("seconds", [-2 * UNQUEUED_SECONDS, 2 * UNQUEUED_SECONDS])
def test_upload_whose_app_was_killed_is_read_after_a_while(
    folder: UploadsFolder, seconds: float
) -> None:
    commit(folder, "plan.md", "June.")
    (mark,) = folder.root.rglob("unqueued")
    os.utime(mark, (0, time.time() + seconds))
    folder.run()

    assert states(folder) == {"plan.md": ("ready", "")}


def test_folder_that_cannot_be_removed_stops_no_other_upload(folder: UploadsFolder) -> None:
    deleted = folder.add("anna", "deleted.md", "A plan.")
    folder.delete("anna", deleted.id)
    for each in list_folders(folder.root):
        (each.path / "by-hand").mkdir()
    folder.add("anna", "plan.md", "June.")
    folder.run()

    assert folder.search("anna", "June") == ["June."]
    assert deleted.id in folder.folders()


def test_damaged_index_is_made_again(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")
    (folder.root / INDEX).write_bytes(b"no index")
    run_as_the_app(folder)

    assert folder.search("anna", "June") == ["June."]


def test_upload_that_ends_the_process_fails_after_some_attempts(folder: UploadsFolder) -> None:
    class Killer(FakePassageReader):
        async def read_passages(self, path: Path, name: str) -> Any:
            raise Killed

    folder.add("anna", "plan.md", "June.")
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            folder.run(Killer())
        assert states(folder)["plan.md"] == ("reading", "")
    folder.run(Killer())

    assert states(folder) == {"plan.md": ("failed", STOPPED)}


def test_failure_of_the_index_is_not_that_of_the_upload(folder: UploadsFolder) -> None:
    class Busy:
        def __init__(self, target: Any) -> None:
            self.fingerprints = target.fingerprints

        async def put(self, *_: object) -> None:
            raise IndexUnavailable("It is locked.")

    folder.add("anna", "plan.md", "June.")
    for _ in range(MAX_ATTEMPTS + 1):
        with pytest.raises(IndexUnavailable):
            folder.run(writer=Busy)
    folder.run()

    assert states(folder) == {"plan.md": ("ready", "")}


@pytest.mark.parametrize("limit", range(1, 40))
def test_kill_at_any_moment_leaves_what_the_next_run_completes(
    folder: UploadsFolder, limit: int
) -> None:
    deleted = folder.add("anna", "deleted.md", "A deleted plan.")
    folder.add("anna", "plan.md", "An old plan.")
    folder.run()
    folder.delete("anna", deleted.id)
    folder.add("anna", "plan.md", "A new plan.", replace=True)
    folder.add("ben", "plan.md", "Another plan.")
    moments = Moments(limit)
    try:
        folder.run(moments.wrap(FakePassageReader()), moments.wrap)
    except Killed:
        found = folder.search("anna", "plan")
        assert found in (["An old plan."], ["A new plan."])
    else:
        assert moments.count < 30  # so that the moments of this test are all there are
    folder.run()

    assert folder.search("anna", "plan") == ["A new plan."]
    assert folder.search("ben", "plan") == ["Another plan."]
    assert folder.indexed() == folder.folders()
    assert len(folder.folders()) == 2


def test_deletion_while_it_is_read_is_not_undone(folder: UploadsFolder) -> None:
    class Deleting(FakePassageReader):
        async def read_passages(self, path: Path, name: str) -> Any:
            await folder.store.delete("anna", upload.id)
            return await super().read_passages(path, name)

    upload = folder.add("anna", "plan.md", "June.")
    folder.run(Deleting())

    assert folder.uploads_of("anna") == ()
    assert folder.search("anna", "June") == []
    assert folder.indexed() == folder.folders() == set()


def test_real_reader_reads_by_the_type_of_the_name(folder: UploadsFolder) -> None:
    folder.add("anna", "Plan 1.MD", "# Plan\n\nJune.")
    folder.add("anna", "fake.pdf", "June.")
    folder.add("anna", "program.exe", "\x00\x01\x02")
    folder.run(SandboxReader())

    assert states(folder) == {
        "Plan 1.MD": ("ready", ""),
        "fake.pdf": ("failed", "Its content is not what its name says."),
        "program.exe": ("failed", "There is no reader for this type of file."),
    }
