"""Uploads in Blob storage, with the real SDKs: over Azurite, and over servers that fail."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, TypeVar

import pytest

from shared.domain.errors import (
    Misconfigured,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from shared.uploads.base import UploadLimits
from shared.uploads.blob.draft import BLOCK_BYTES, BlobDraft
from shared.uploads.blob.layout import (
    DRAFT,
    RECORD_KEY,
    RESULT,
    RESULT_KEY,
    decode,
    encode,
    upload_path,
)
from shared.uploads.blob.queue import UploadsQueue
from shared.uploads.blob.requests import UploadsContainer
from shared.uploads.blob.store import BlobUploads
from shared.uploads.limits import DRAFT_SECONDS
from shared.uploads.records import Result, owner_key
from tests.support.azurite import AzuriteHome, azurite_queues, needs_azurite
from tests.support.blob_store import LIMITS, UploadsAccount, UploadsFixture

pytestmark = needs_azurite
T = TypeVar("T")
Work = Callable[[UploadsFixture], Awaitable[T]]


@pytest.fixture(scope="module")
def uploads(home: AzuriteHome, account: str) -> Iterator[UploadsAccount]:
    with azurite_queues(home) as queues:
        yield UploadsAccount(home, account, queues)


def run(account: UploadsAccount, work: Work[T], limits: UploadLimits = LIMITS) -> T:
    """Run `work` with a store of its own."""

    async def go() -> T:
        async with account.open(limits) as fixture:
            return await work(fixture)

    return asyncio.run(go())


async def read(store: Any, id: str) -> bytes:
    """Read the whole file of an upload."""
    file = await store.open(id)
    return b"".join([part async for part in file.read(0, file.size)])


def test_upload_is_kept_for_its_owner_and_a_message_is_sent(uploads: UploadsAccount) -> None:
    data = os.urandom(2 * BLOCK_BYTES + 17)

    async def go(it: UploadsFixture) -> None:
        upload = await it.add("anna", "größe.pdf", data)

        assert await it.store.list("anna") == (upload,)
        assert (upload.name, upload.size, upload.state) == ("größe.pdf", len(data), "queued")
        assert await it.store.list("ben") == ()
        assert await it.store.has_any("anna")
        assert not await it.store.has_any("ben")
        assert await read(it.store, upload.id) == data
        assert await it.messages() == [f"{owner_key('anna')}/{upload.id}"]

    run(uploads, go)


def test_empty_file_is_kept(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        upload = await it.add("anna", "empty.md", b"")

        assert [each.size for each in await it.store.list("anna")] == [0]
        assert await read(it.store, upload.id) == b""

    run(uploads, go)


def test_uploads_are_returned_by_id_to_their_owner_alone(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        first, second, deleted = [await it.add("anna", f"{n}.md") for n in range(3)]
        other = await it.add("ben", "plan.md")
        await it.store.delete("anna", deleted.id)
        ids = [second.id, other.id, deleted.id, "upload-" + "a" * 16, f"../{other.id}", ""]
        many = [*ids, *(f"upload-{letter * 16}" for letter in "bcdefghi")]

        assert await it.store.get("anna", ids) == {second.id: second}
        assert await it.store.get("anna", many) == {second.id: second}
        assert await it.store.get("anna", [first.id, first.id]) == {first.id: first}

    run(uploads, go)


def test_state_is_the_result_of_the_reader(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        upload = await it.add("anna", "plan.md")
        path = upload_path("anna", upload.id)
        result = Result(state="failed", reason="It has no text: “Größe”.")
        await it.container.put(f"{path}/{RESULT}", {RESULT_KEY: encode(result)})
        (failed,) = await it.store.list("anna")

        assert (failed.state, failed.reason) == ("failed", "It has no text: “Größe”.")

        await it.container.put(f"{path}/{RESULT}", {RESULT_KEY: "no base64!"})
        assert [each.state for each in await it.store.list("anna")] == ["queued"]

    run(uploads, go)


def test_deleted_upload_is_hidden_at_once(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        upload = await it.add("anna", "plan.md")
        await it.messages()
        for owner, id in (("ben", upload.id), ("anna", "upload-" + "a" * 16), ("anna", "x")):
            with pytest.raises(NotFound, match="There is no such upload"):
                await it.store.delete(owner, id)
        await it.store.delete("anna", upload.id)

        assert await it.store.list("anna") == ()
        for id in (upload.id, "upload-" + "a" * 16, "x"):
            with pytest.raises(NotFound):
                await it.store.open(id)
        with pytest.raises(NotFound):
            await it.store.delete("anna", upload.id)
        assert await it.messages() == [upload_path("anna", upload.id)]

    run(uploads, go)


def test_upload_without_its_message_stays_until_the_sweep_sends_one(
    uploads: UploadsAccount, caplog: pytest.LogCaptureFixture
) -> None:
    async def go(it: UploadsFixture) -> None:
        await it.queue.delete_queue()
        kept, deleted = [await it.add("anna", f"{n}.md") for n in range(2)]
        await it.store.delete("anna", deleted.id)

        assert await it.store.list("anna") == (kept,)

    run(uploads, go)
    assert "is AZURE_UPLOADS_QUEUE_ENDPOINT right?" in caplog.text


def test_draft_is_no_upload(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        draft = await it.store.begin("anna", "plan.md")
        await draft.write(b"x" * (BLOCK_BYTES + 1))

        assert await it.store.list("anna") == ()
        await draft.discard()
        await draft.discard()
        assert await it.names() == []
        pages = it.container.client.list_blobs(include=["uncommittedblobs"])
        assert [blob.name async for blob in pages] == []  # nor blocks, which cost

    run(uploads, go)


def test_names_of_blobs_have_no_owner(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        await it.add("anna", "plan.md")
        names = await it.names()

        assert len(names) == 3
        assert not [name for name in names if "anna" in name or "plan" in name]

    run(uploads, go)


def test_large_file_is_refused_while_it_is_written(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        draft = await it.store.begin("anna", "large.md")
        with pytest.raises(TooLarge, match=r"large\.md is larger than 2\.8\d+ MB"):
            for _ in range(4):
                await draft.write(b"x" * 1_000_000)
        await draft.discard()

        assert await it.names() == []

    run(uploads, go)


def test_number_of_uploads_is_limited_for_each_owner(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        stored = [await it.add("anna", f"{n}.md") for n in range(LIMITS.files)]
        with pytest.raises(TooManyRequests, match="You have 3 uploads"):
            await it.store.begin("anna", "more.md")
        await it.add("ben", "more.md")
        for _ in range(LIMITS.files):
            await it.store.delete("anna", stored.pop().id)
            stored.insert(0, await it.add("anna", "more.md"))
        await it.store.delete("anna", stored.pop().id)

        with pytest.raises(TooManyRequests, match="still being removed"):
            await it.store.begin("anna", "more.md")
        assert len(await it.store.list("anna")) == LIMITS.files - 1
        assert not [name for name in await it.names() if DRAFT in name]

    run(uploads, go)


def test_drafts_at_once_do_not_exceed_the_limit(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        begun = (it.store.begin("anna", f"{n}.md") for n in range(LIMITS.files + 3))
        for draft in await asyncio.gather(*begun, return_exceptions=True):
            if isinstance(draft, BlobDraft):
                await draft.commit()

        assert len(await it.store.list("anna")) <= LIMITS.files

    run(uploads, go)


def test_uploads_of_a_day_are_limited_also_if_they_are_deleted(uploads: UploadsAccount) -> None:
    clock = [1_700_000_000.0]

    async def go() -> None:
        limits = UploadLimits(file_bytes=1000, files=10, files_per_day=2)
        async with uploads.open(limits, lambda: clock[0]) as it:
            for name in ("a.md", "b.md"):
                await it.store.delete("anna", (await it.add("anna", name)).id)
            with pytest.raises(TooManyRequests, match="2 documents") as refused:
                await it.store.begin("anna", "c.md")
            assert refused.value.retry_after == 86_400 - clock[0] % 86_400
            await it.add("ben", "c.md")
            clock[0] += 86_400
            await it.add("anna", "c.md")

    asyncio.run(go())


def test_draft_of_a_killed_app_counts_for_some_minutes(uploads: UploadsAccount) -> None:
    late = [0.0]

    async def go() -> None:
        limits = UploadLimits(file_bytes=1000, files=1, files_per_day=100)
        async with uploads.open(limits, lambda: time.time() + late[0]) as it:
            await it.store.begin("anna", "killed.md")
            with pytest.raises(TooManyRequests):
                await it.store.begin("anna", "plan.md")
            late[0] = DRAFT_SECONDS + 1
            await it.add("anna", "plan.md")

    asyncio.run(go())


def test_record_of_another_owner_is_not_read(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        upload = await it.add("anna", "plan.md")
        blob = it.container.blob(f"{upload_path('anna', upload.id)}/content.md")
        metadata = (await blob.get_blob_properties()).metadata
        copy = it.container.blob(f"{upload_path('ben', upload.id)}/content.md")
        await copy.upload_blob(b"June.", metadata=metadata)

        assert await it.store.list("ben") == ()
        await blob.set_blob_metadata({RECORD_KEY: "e30="})
        assert await it.store.list("anna") == ()

    run(uploads, go)


def test_upload_whose_record_is_damaged_can_be_deleted(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        good, bad, deleted = [await it.add("anna", f"{n}.md") for n in range(3)]
        other = await it.add("ben", "plan.md")
        await it.store.delete("anna", deleted.id)
        path = upload_path("anna", bad.id)
        await it.container.blob(f"{path}/content.md").set_blob_metadata({RECORD_KEY: "?"})
        await it.messages()

        assert await it.store.list("anna") == (good,)
        assert set(await it.store.list_ids("anna")) == {good.id, bad.id}
        for id in (deleted.id, other.id, "x"):
            with pytest.raises(NotFound):
                await it.store.delete("anna", id)
        await it.store.delete("anna", bad.id)
        assert await it.store.list_ids("anna") == (good.id,)
        assert await it.messages() == [path]

    run(uploads, go)


def test_missing_container_is_reported(uploads: UploadsAccount) -> None:
    async def go(it: UploadsFixture) -> None:
        await it.store.ready()
        await it.container.client.delete_container()
        calls: tuple[Callable[[], Awaitable[Any]], ...] = (
            it.store.ready,
            lambda: it.store.list("anna"),
            lambda: it.store.has_any("anna"),
            lambda: it.store.begin("anna", "plan.md"),
        )
        for call in calls:
            with pytest.raises(Misconfigured) as refused:
                await call()
            assert "AZURE_UPLOADS_ENDPOINT" in (refused.value.cause or "")

    run(uploads, go)


class LosingContainer(UploadsContainer):
    """A container that completes a request, and loses its answer."""

    lost: ClassVar[list[int]] = []  # how many requests are answered before

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        async with super().request():
            yield
        if self.lost:
            self.lost[0] -= 1
            if self.lost[0] < 0:
                self.lost.clear()
                raise Unavailable


# The requests are: a block, the owner of the id, the blob of the day (twice), the commit, the mark.
@pytest.mark.parametrize(
    ("number", "is_stored"),
    [(0, False), (1, False), (2, False), (3, False), (4, False), (5, True)],
)
def test_lost_answer_while_it_is_stored_leaves_no_upload(
    uploads: UploadsAccount, number: int, is_stored: bool
) -> None:
    async def go(it: UploadsFixture) -> None:
        container = LosingContainer(it.container.client)
        store = BlobUploads(container, UploadsQueue(it.queue), LIMITS)
        draft = await store.begin("anna", "plan.md")
        await draft.write(b"June.")
        LosingContainer.lost[:] = [number]
        with suppress(Unavailable):
            await draft.commit()
            assert is_stored
        await draft.discard()

        assert len(await it.store.list("anna")) == is_stored
        blobs = it.container.client.list_blobs(include=["uncommittedblobs"])
        names = {blob.name.rpartition("/")[2] async for blob in blobs}
        is_committed = number == 4  # it is marked as deleted, for the reader to remove it
        assert ("content.md" in names) == (is_stored or is_committed)

    run(uploads, go)


def test_metadata_that_cannot_be_read_is_no_record() -> None:
    for value in (None, "", "!", "e30", encode(Result(state="ready"))[:-3]):
        assert decode(value, Result) in (None, Result())
