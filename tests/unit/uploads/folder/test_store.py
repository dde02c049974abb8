"""Uploads in a folder: whole or not at all, within limits."""

from __future__ import annotations

import asyncio
import os
import resource
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shared.domain.errors import NotFound, TooLarge, TooManyRequests, Unavailable
from shared.uploads.base import UploadLimits
from shared.uploads.folder.records import (
    count_day,
    list_drafts,
    make_draft,
    owner_folder,
)
from shared.uploads.folder.store import FolderDraft
from shared.uploads.records import utc_day
from tests.support.uploads import LIMITS, UploadsFolder


@pytest.fixture
def folder(tmp_path: Path) -> UploadsFolder:
    return UploadsFolder(tmp_path / "uploads")


def test_upload_is_listed_for_its_owner(folder: UploadsFolder) -> None:
    upload = folder.add("anna", "plan.md", "June.")

    assert folder.uploads_of("anna") == (upload,)
    assert (upload.name, upload.size, upload.state) == ("plan.md", 5, "queued")
    assert folder.uploads_of("ben") == ()
    assert folder.wakes == 1


def test_process_starts_when_all_uploads_of_a_form_are_stored(folder: UploadsFolder) -> None:
    async def go() -> None:
        drafts = [await folder.store.begin("anna", f"{n}.md") for n in range(2)]
        uploads = [await draft.commit() for draft in drafts]
        assert await folder.store.list("anna") == tuple(uploads)
        assert folder.wakes == 0
        await folder.store.delete("anna", uploads[0].id)
        await folder.store.enqueue(uploads)
        assert await folder.store.list("anna") == (uploads[1],)

    asyncio.run(go())
    assert folder.wakes == 2
    folder.run()
    assert [upload.state for upload in folder.uploads_of("anna")] == ["ready"]


def test_day_that_cannot_be_counted_leaves_nothing(folder: UploadsFolder) -> None:
    async def go() -> None:
        draft = await folder.store.begin("anna", "plan.md")
        day.mkdir()
        with pytest.raises(Unavailable):
            await draft.commit()
        await draft.discard()

    day = owner_folder(folder.root, "anna") / f".day-{utc_day(folder.now)}"
    asyncio.run(go())

    assert folder.folders() == set()
    assert list_drafts(owner_folder(folder.root, "anna")) == []


def test_uploads_are_returned_by_id_to_their_owner_alone(folder: UploadsFolder) -> None:
    first, second, deleted = (folder.add("anna", f"{n}.md", "x") for n in range(3))
    other = folder.add("ben", "plan.md", "x")
    folder.delete("anna", deleted.id)
    ids = [second.id, other.id, deleted.id, "upload-" + "a" * 16, f"../{other.id}", ""]

    assert asyncio.run(folder.store.get("anna", ids)) == {second.id: second}
    assert asyncio.run(folder.store.get("anna", [first.id, first.id])) == {first.id: first}
    assert asyncio.run(folder.store.has_any("anna"))
    assert not asyncio.run(folder.store.has_any("eve"))


def test_path_has_no_owner(folder: UploadsFolder) -> None:
    folder.add("anna", "plan.md", "June.")

    assert not [path for path in folder.root.rglob("*") if "anna" in path.name]
    folders = [folder.root, *(path for path in folder.root.rglob("*") if path.is_dir())]
    assert len(folders) == 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in folders)


def test_draft_is_no_upload(folder: UploadsFolder) -> None:
    async def go() -> None:
        draft = await folder.store.begin("anna", "plan.md")
        await draft.write(b"June.")
        assert await folder.store.list("anna") == ()
        await draft.discard()

    asyncio.run(go())
    assert list_drafts(owner_folder(folder.root, "anna")) == []
    assert folder.wakes == 0


def test_abandoned_draft_is_removed_after_a_while(folder: UploadsFolder) -> None:
    for _ in range(2):
        make_draft(owner_folder(folder.root, "anna")).content("plan.md").write_text("Jun")
    old, new = list_drafts(owner_folder(folder.root, "anna"))
    os.utime(old, (0, 0))
    folder.run()

    assert list_drafts(owner_folder(folder.root, "anna")) == [new]


def test_discard_keeps_what_is_committed(folder: UploadsFolder) -> None:
    async def go() -> None:
        draft = await folder.store.begin("anna", "plan.md")
        await draft.commit()
        await draft.discard()

    asyncio.run(go())
    assert len(folder.uploads_of("anna")) == 1


def test_large_file_is_refused_while_it_is_written(folder: UploadsFolder) -> None:
    folder.add("anna", "small.md", "x" * LIMITS.file_bytes)
    with pytest.raises(TooLarge, match=r"large\.md is larger than 0\.000\d+ MB"):
        folder.add("anna", "large.md", "x" * (LIMITS.file_bytes + 1))


def test_number_of_uploads_is_limited_for_each_owner(folder: UploadsFolder) -> None:
    uploads = [folder.add("anna", f"{n}.md", "x") for n in range(LIMITS.files)]
    with pytest.raises(TooManyRequests, match="You have 3 uploads"):
        folder.add("anna", "more.md", "x")
    folder.add("ben", "more.md", "x")
    folder.delete("anna", uploads[0].id)
    folder.add("anna", "more.md", "x")

    assert len(folder.uploads_of("anna")) == LIMITS.files


def test_concurrent_drafts_do_not_exceed_the_limit(folder: UploadsFolder) -> None:
    async def go() -> None:
        begun = (folder.store.begin("anna", f"{n}.md") for n in range(LIMITS.files + 3))
        drafts = await asyncio.gather(*begun, return_exceptions=True)
        assert any(isinstance(draft, TooManyRequests) for draft in drafts)
        for draft in drafts:
            if isinstance(draft, FolderDraft):
                await draft.commit()

    asyncio.run(go())
    assert len(folder.uploads_of("anna")) <= LIMITS.files
    assert list_drafts(owner_folder(folder.root, "anna")) == []


def test_deleted_uploads_are_not_more_than_others_until_they_are_removed(
    folder: UploadsFolder,
) -> None:
    for number in range(2 * LIMITS.files - 1):
        folder.delete("anna", folder.add("anna", f"{number}.md", "x").id)
    folder.add("anna", "last.md", "x")
    with pytest.raises(TooManyRequests, match="still being removed"):
        folder.add("anna", "more.md", "x")
    folder.run()
    folder.add("anna", "more.md", "x")

    assert len(folder.uploads_of("anna")) == 2


def test_number_of_uploads_in_a_day_is_limited_for_each_owner(tmp_path: Path) -> None:
    folder = UploadsFolder(tmp_path, UploadLimits(file_bytes=1000, files=100, files_per_day=2))
    for number in range(2):
        folder.delete("anna", folder.add("anna", f"{number}.md", "x").id)
    folder.run()
    with pytest.raises(TooManyRequests, match="more than the 2 documents") as refusal:
        folder.add("anna", "more.md", "x")
    folder.add("ben", "more.md", "x")
    wait = int(refusal.value.headers["Retry-After"])
    folder.now += wait + 1
    folder.add("anna", "more.md", "x")

    assert 0 < wait <= 86_400
    assert [upload.name for upload in folder.uploads_of("anna")] == ["more.md"]


def test_files_of_one_form_do_not_exceed_the_limit_of_a_day(tmp_path: Path) -> None:
    folder = UploadsFolder(tmp_path, UploadLimits(file_bytes=1000, files=100, files_per_day=2))

    async def go() -> None:
        drafts = [await folder.store.begin("anna", f"{n}.md") for n in range(2)]
        with pytest.raises(TooManyRequests):
            await folder.store.begin("anna", "2.md")
        for draft in drafts:
            await draft.commit()

    asyncio.run(go())
    assert len(folder.uploads_of("anna")) == 2


def test_numbers_of_other_days_are_removed(folder: UploadsFolder) -> None:
    today = utc_day(folder.now)
    owner = owner_folder(folder.root, "anna")
    folder.now -= 86_400
    folder.add("anna", "yesterday.md", "x")
    folder.now += 86_400
    folder.add("anna", "plan.md", "x")
    folder.run()

    assert count_day(owner, today) == 1
    assert count_day(owner, today - timedelta(days=1)) == 0


@pytest.mark.parametrize("id", ["", "..", "../x", "index.db", "upload-" + "a" * 16])
def test_other_ids_are_no_uploads(folder: UploadsFolder, id: str) -> None:
    folder.add("anna", "plan.md", "June.")
    with pytest.raises(NotFound):
        folder.delete("anna", id)
    with pytest.raises(NotFound):
        asyncio.run(folder.store.open(id))


def test_upload_of_another_owner_cannot_be_deleted(folder: UploadsFolder) -> None:
    upload = folder.add("anna", "plan.md", "June.")
    with pytest.raises(NotFound):
        folder.delete("ben", upload.id)

    assert folder.uploads_of("anna") == (upload,)


def test_deleted_upload_is_gone_at_once(folder: UploadsFolder) -> None:
    upload = folder.add("anna", "plan.md", "June.")
    folder.delete("anna", upload.id)

    assert folder.uploads_of("anna") == ()
    with pytest.raises(NotFound):
        asyncio.run(folder.store.open(upload.id))
    with pytest.raises(NotFound):
        folder.delete("anna", upload.id)


def test_full_disk_leaves_nothing(folder: UploadsFolder) -> None:
    async def go() -> None:
        draft = await folder.store.begin("anna", "plan.md")
        await draft.write(b"June.")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))  # as if the disk were full
        try:
            with pytest.raises(Unavailable):
                await draft.commit()
            await draft.discard()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    asyncio.run(go())

    assert list_drafts(owner_folder(folder.root, "anna")) == []
    assert folder.uploads_of("anna") == ()


def test_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    tmp_path.joinpath("uploads").write_text("a file")
    folder = UploadsFolder(tmp_path / "uploads", replace(LIMITS, files=1))
    with pytest.raises(Unavailable):
        folder.add("anna", "plan.md", "June.")
