"""The service that reads uploads from a container: messages, failures, the sweep, and kills."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.enrich import Enricher
from ingest.sandbox import SandboxReader
from ingest.targets.index_writer import Document, IndexUnavailable, RequestRejected
from ingest.uploads.blob_run import GIVEN_UP, NOT_IN_A_DAY
from ingest.uploads.blobs import BlobSource
from ingest.uploads.indexer import MAX_ATTEMPTS, STOPPED
from shared.domain.errors import Unavailable
from shared.uploads.base import CATEGORY, Upload
from shared.uploads.blob.layout import DRAFT, IDS, RECORD_KEY, day_name, encode, group
from shared.uploads.records import Record, Result, owner_key, utc_day
from tests.support.azure_uploads import (
    LATER,
    ActingReader,
    UploadsInAzure,
    path_of,
)
from tests.support.azurite import AzuriteHome, needs_azurite
from tests.support.fake_uploads_index import FakeUploadsIndex
from tests.support.moments import Killed, Moments

pytestmark = needs_azurite
DAY = 86_400.0
MOMENTS = 70  # more than the messages of the test have


@pytest.fixture
def place(home: AzuriteHome, account: str) -> Iterator[UploadsInAzure]:
    place = UploadsInAzure(home, account)
    yield place
    place.close()


async def end_process(_: Path) -> None:
    raise Killed


def test_upload_is_read_for_its_owner(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)

    assert place.states() == {"plan.md": ("ready", "")}
    assert place.found("anna") == ["June."]
    (document,) = place.index.documents.values()
    assert document.name == f"{upload.id}/plan.md"
    assert [(each.oids, each.category) for each in document.passages] == [(("anna",), CATEGORY)]


def test_repeated_message_changes_nothing(place: UploadsInAzure) -> None:
    uploads = [place.add("anna", name, text) for name, text in (("a.md", "A."), ("b.md", "broken"))]
    place.read(*uploads)
    before = place.blobs()
    place.read(*uploads)

    assert place.blobs() == before
    assert place.index.put_names == [uploads[0].path]
    assert place.states() == {"a.md": ("ready", ""), "b.md": ("failed", "It is damaged.")}


@pytest.mark.parametrize("message", ["", "a/b", "upload-aaaaaaaaaaaaaaaa", "../x", "ids/x"])
def test_other_message_does_nothing(place: UploadsInAzure, message: str) -> None:
    place.add("anna", "plan.md", "June.")
    place.call(place.service.read(message))
    place.call(place.service.give_up(message))

    assert place.states() == {"plan.md": ("queued", "")}


def test_message_of_no_upload_does_nothing(place: UploadsInAzure) -> None:
    path = f"{owner_key('anna')}/upload-aaaaaaaaaaaaaaaa"
    place.call(place.service.read(path))
    place.call(place.service.give_up(path))

    assert place.blobs() == []


def test_two_instances_with_one_message_end_in_one_state(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")

    async def both() -> None:
        await asyncio.gather(*(place.service.read(path_of(upload)) for _ in range(2)))

    place.call(both())

    assert place.states() == {"plan.md": ("ready", "")}
    assert place.found("anna") == ["June."]
    assert place.result(upload).attempts == 0


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("mine.kdbx", "words", "It is a store of keys."),
        ("a.md", "-----BEGIN PRIVATE KEY-----\n" + "A" * 40, "It holds a private key."),
        ("a.md", "word " * 1300, "It has 3 pages; an upload may have 2."),
        ("a.md", "x" * 10_001, "It is larger than 0.00953674 MB."),
    ],
)
def test_upload_fails_for_the_reasons_of_a_laptop(
    place: UploadsInAzure, name: str, text: str, reason: str
) -> None:
    place.max_pages, place.file_bytes = 2, 10_000
    place.read(place.add("anna", name, text))

    assert place.states() == {name: ("failed", reason)}
    assert place.index.documents == {}


def test_file_comes_whole_into_a_private_folder_that_is_removed(place: UploadsInAzure) -> None:
    content, seen = b"0123456789" * 250_000, list[Any]()

    async def look(path: Path) -> None:
        mode = stat.S_IMODE(path.parent.stat().st_mode)
        seen.append((path, path.name, mode, path.read_bytes() == content))

    place.reader = ActingReader(look)
    place.read(place.add("anna", "Plan.TXT", content))

    path = seen[0][0]
    assert seen == [(path, "content.txt", 0o700, True)]
    assert not path.parent.exists()


def test_sandbox_reads_by_the_type_of_the_name(place: UploadsInAzure) -> None:
    place.reader = SandboxReader()
    uploads = [place.add("anna", name, "# Plan\n\nJune.") for name in ("Plan 1.MD", "fake.pdf")]
    place.read(*uploads)
    place.call(place.reader.__aexit__())

    assert place.states() == {
        "Plan 1.MD": ("ready", ""),
        "fake.pdf": ("failed", "Its content is not what its name says."),
    }


def test_failure_of_a_service_is_not_that_of_the_upload(place: UploadsInAzure) -> None:
    failures: list[Exception] = [IndexUnavailable("It is busy."), Unavailable()] * MAX_ATTEMPTS

    async def fail(_: Path) -> None:
        raise failures.pop()

    good, place.reader = place.reader, ActingReader(fail)
    upload = place.add("anna", "plan.md", "June.")
    for _ in range(2 * MAX_ATTEMPTS):
        with pytest.raises((IndexUnavailable, Unavailable)):
            place.read(upload)
        assert (place.result(upload).state, place.result(upload).attempts) == ("queued", 0)
    place.reader = good
    place.read(upload)

    assert place.states() == {"plan.md": ("ready", "")}


def test_rejected_document_fails(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.index.rejections = {upload.path: "It is too large."}
    place.read(upload)

    assert place.states() == {"plan.md": ("failed", "It is too large.")}


def test_upload_that_ends_the_process_fails_after_some_attempts(place: UploadsInAzure) -> None:
    place.reader = ActingReader(end_process)
    upload = place.add("anna", "plan.md", "June.")
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            place.read(upload)
        assert place.states() == {"plan.md": ("reading", "")}
    place.read(upload)

    assert place.states() == {"plan.md": ("failed", STOPPED)}


def test_deleted_upload_is_removed_and_its_mark_later(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)
    place.delete(upload)
    document = place.index.documents[upload.path]
    place.read(upload)

    assert place.index.documents == {}
    assert place.names() == {f"{path_of(upload)}/deleted"}
    assert place.sweep() == []

    place.index.documents[upload.path] = document  # a search has not found it before
    place.offset += LATER
    assert place.sweep() == [path_of(upload)]
    place.read(upload)

    assert place.index.documents == {}
    assert place.names() == set()


@pytest.mark.parametrize("damage", ["removed", "no metadata"])
def test_deletion_needs_no_record(place: UploadsInAzure, damage: str) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)
    name = f"{path_of(upload)}/content.md"
    if damage == "removed":
        place.call(place.container.delete(name))
    else:
        place.call(place.container.put(name))
    place.delete(upload)
    place.read(upload)

    assert place.index.documents == {}
    assert place.names() == {f"{path_of(upload)}/deleted"}


@pytest.mark.parametrize("is_removed", [False, True])
def test_deletion_while_it_is_read_is_not_undone(place: UploadsInAzure, is_removed: bool) -> None:
    async def delete(_: Path) -> None:
        await place.mark_deleted(upload)
        if is_removed:
            await place.service.read(path_of(upload))

    place.reader = ActingReader(delete)
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)

    assert place.index.documents == {}
    assert place.names() == {f"{path_of(upload)}/deleted"}
    place.settle()
    assert place.names() == set()


def test_file_that_is_gone_before_it_is_read_leaves_nothing(place: UploadsInAzure) -> None:
    class Source(BlobSource):
        async def read_result(self, upload: Upload) -> Result:
            await self.container.delete(f"{path_of(upload)}/content.md")
            return Result()

    upload = place.add("anna", "plan.md", "June.")
    service = replace(place.service, source=Source(place.container, place.file_bytes))
    place.call(service.read(path_of(upload)))

    assert place.index.documents == {}
    assert place.names() == set()


def test_later_upload_replaces_the_earlier_one_when_it_is_ready(place: UploadsInAzure) -> None:
    old = place.add("anna", "plan.md", "June.")
    other = place.add("ben", "plan.md", "July.")
    place.read(old, other)
    new = place.add("anna", "plan.md", "It is June or so.", replaces=True)
    assert place.found("anna") == ["June."]
    place.read(new)

    assert place.found("anna") == ["It is June or so."]
    assert place.found("ben") == ["July."]
    assert set(place.index.documents) == {new.path, other.path}
    assert {name for name in place.names() if old.id in name} == {f"{path_of(old)}/deleted"}


@pytest.mark.parametrize(("text", "state"), [("New.", "ready"), ("broken", "failed")])
@pytest.mark.parametrize("then", ["repeat", "sweep"])
def test_kill_before_the_earlier_one_is_removed_removes_it_later(
    place: UploadsInAzure, text: str, state: str, then: str
) -> None:
    class Source(BlobSource):
        async def mark_deleted(self, upload: Upload) -> None:
            raise Killed

    place.read(place.add("anna", "plan.md", "Old." if state == "ready" else "broken"))
    new = place.add("anna", "plan.md", text, replaces=True)
    killed = replace(place.service, source=Source(place.container, place.file_bytes))
    with pytest.raises(Killed):
        place.call(killed.read(path_of(new)))
    assert [each.state for each in place.uploads_of("anna")] == [state, state]
    if then == "repeat":
        place.read(new)
        assert [each.id for each in place.uploads_of("anna")] == [new.id]
    place.settle()

    assert [each.id for each in place.uploads_of("anna")] == [new.id]
    assert place.index.documents.keys() <= {new.path}


def test_upload_that_is_given_up_replaces_nothing(place: UploadsInAzure) -> None:
    uploads = [place.add("anna", "plan.md", text, replaces=True) for text in ("Old.", "broken")]
    for upload in uploads:
        place.give_up(upload)
    place.sweep()

    assert len(place.uploads_of("anna")) == 2


def test_failed_upload_replaces_failed_ones_alone(place: UploadsInAzure) -> None:
    place.read(place.add("anna", "plan.md", "June."))
    for _ in range(2):
        place.read(place.add("anna", "plan.md", "broken", replaces=True))

    assert [each.state for each in sorted(place.uploads_of("anna"), key=lambda it: it.order)] == [
        "ready",
        "failed",
    ]
    assert place.found("anna") == ["June."]


def test_found_upload_stays_when_it_cannot_be_read_again(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)
    place.enricher = Enricher(fingerprint="2")
    place.max_pages = 0  # a limit that has changed
    for _ in range(MAX_ATTEMPTS + 1):
        place.read(upload)

    assert place.states() == {"plan.md": ("ready", "")}
    assert place.found("anna") == ["June."]


class RejectingIndex(FakeUploadsIndex):
    """An index whose definition lacks a field."""

    async def put(self, document: Document, path: Path) -> None:
        raise RequestRejected("Azure AI Search did not accept the request.")


def test_index_that_rejects_every_request_fails_no_upload(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.index = RejectingIndex()
    with pytest.raises(RequestRejected):
        place.read(upload)

    assert place.result(upload) == Result()


def test_upload_that_takes_too_long_is_not_counted(place: UploadsInAzure) -> None:
    async def stall(_: Path) -> None:
        raise TimeoutError  # as at the end of the time for an upload

    upload = place.add("anna", "plan.md", "June.")
    place.reader = ActingReader(stall)
    with pytest.raises(TimeoutError):
        place.read(upload)

    assert place.result(upload) == Result()


def test_upload_that_is_given_up_is_tried_again_for_a_day(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.give_up(upload)
    assert place.states() == {"plan.md": ("failed", GIVEN_UP)}
    assert place.sweep() == []

    place.offset += LATER
    assert place.sweep() == [path_of(upload)]
    place.give_up(upload)
    place.offset += DAY - LATER - 60
    assert place.sweep() == [path_of(upload)]
    place.read(upload)

    assert place.states() == {"plan.md": ("ready", "")}
    place.give_up(upload)
    assert place.states() == {"plan.md": ("ready", "")}


def test_upload_that_is_given_up_fails_for_good_after_a_day(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.give_up(upload)
    place.offset += DAY / 2
    place.give_up(upload)  # the day does not begin again
    assert place.states() == {"plan.md": ("failed", GIVEN_UP)}
    place.offset += DAY / 2 + 60
    place.give_up(upload)

    assert place.states() == {"plan.md": ("failed", NOT_IN_A_DAY)}
    place.settle()
    assert place.index.put_names == []


def test_upload_that_is_given_up_is_tried_again_however_late(place: UploadsInAzure) -> None:
    place.give_up(place.add("anna", "plan.md", "June."))
    place.offset += 3 * DAY  # the reader was stopped
    place.settle()

    assert place.states() == {"plan.md": ("ready", "")}


def test_given_up_message_of_what_failed_or_is_deleted_changes_nothing(
    place: UploadsInAzure,
) -> None:
    failed, deleted = place.add("anna", "a.md", "broken"), place.add("anna", "b.md", "June.")
    place.read(failed)
    place.delete(deleted)
    before = place.blobs()
    place.give_up(failed)
    place.give_up(deleted)

    assert place.blobs() == before


def test_sweep_has_read_what_no_attempt_reads(place: UploadsInAzure) -> None:
    ready, failed = place.add("anna", "a.md", "A."), place.add("anna", "b.md", "broken")
    place.read(ready, failed)
    queued, reading = place.add("anna", "c.md", "C."), place.add("ben", "d.md", "D.")
    good, place.reader = place.reader, ActingReader(end_process)
    with pytest.raises(Killed):
        place.read(reading)
    place.reader = good
    assert place.sweep() == []

    place.offset += LATER
    assert set(place.sweep()) == {path_of(queued), path_of(reading)}
    place.read(queued, reading)
    assert place.states("ben") == {"d.md": ("ready", "")}
    assert place.sweep() == []


def test_outdated_upload_is_found_until_it_is_read_again(place: UploadsInAzure) -> None:
    states = []

    async def look(_: Path) -> None:
        states.append([each.result.state for each in group(await place.container.list())])

    uploads = [place.add("anna", name, f"{name}.") for name in ("a.md", "b.md")]
    place.read(*uploads)
    place.offset += LATER
    assert place.sweep() == []
    place.enricher = Enricher(fingerprint="2")
    assert place.sweep() == sorted(map(path_of, uploads))
    assert place.found("anna") == ["a.md.", "b.md."]
    place.reader = ActingReader(look)
    place.read(*uploads)

    assert states == [["ready", "ready"]] * 2
    assert {it.fingerprint for it in place.index.documents.values()} == {"3 2"}
    place.offset += LATER
    assert place.sweep() == []


def test_lost_index_is_filled_again(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)
    place.index.documents.clear()
    place.settle()

    assert place.found("anna") == ["June."]
    assert place.states() == {"plan.md": ("ready", "")}


def test_sweep_removes_unused_blobs_alone(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)
    kept, anna = place.names(), owner_key("anna")
    unused = {
        f"{anna}/{DRAFT}0123456789abcdef",
        f"{IDS}upload-aaaaaaaaaaaaaaaa",
        f"{anna}/upload-aaaaaaaaaaaaaaab/result",
        day_name(anna, utc_day(place.now()) - timedelta(days=1)),
    }
    for name in unused:
        place.call(place.container.put(name))
    place.sweep()
    assert {blob.name for blob in place.blobs()} > kept | unused

    place.settle()
    today = day_name(anna, utc_day(place.now()))
    assert {blob.name for blob in place.blobs()} - {today} == kept
    assert place.found("anna") == ["June."]


@pytest.mark.parametrize("record", ["", "damaged!", "of another owner"])
def test_sweep_removes_an_upload_whose_record_is_damaged_after_a_day(
    place: UploadsInAzure, caplog: pytest.LogCaptureFixture, record: str
) -> None:
    good, bad = place.add("anna", "good.md", "Good."), place.add("anna", "bad.md", "Bad.")
    place.read(good, bad)
    other = encode(Record(owner="ben", name="bad.md", size=4, created=0))
    metadata = {RECORD_KEY: other if record == "of another owner" else record} if record else {}
    content = place.container.blob(f"{path_of(bad)}/content.md")

    async def damage() -> None:
        await content.set_blob_metadata(metadata)

    place.call(damage())
    place.offset += DAY - 60
    for path in place.sweep():
        place.call(place.service.read(path))
    assert place.states() == {"good.md": ("ready", "")}
    assert f"{path_of(bad)}/content.md" in place.names()
    assert f"the record of {path_of(bad)} is damaged" in caplog.text

    place.settle()
    assert set(place.index.documents) == {good.path}
    assert {name for name in place.names() if bad.id in name} == set()
    assert place.states() == {"good.md": ("ready", "")}


def test_sweep_removes_the_blob_of_a_draft_that_was_not_deleted(
    place: UploadsInAzure, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{owner_key('anna')}/upload-aaaaaaaaaaaaaaaa"
    place.call(place.container.put(f"{path}/content.md"))
    place.sweep()
    assert place.names() == {f"{path}/content.md"}

    place.settle()
    assert place.names() == set()
    assert "damaged" not in caplog.text


def test_sweep_removes_passages_of_uploads_that_do_not_exist(place: UploadsInAzure) -> None:
    upload = place.add("anna", "plan.md", "June.")
    place.read(upload)
    (document,) = place.index.documents.values()
    for name in ("upload-aaaaaaaaaaaaaaaa/plan.md", "shared/plan.md", "plan.md"):
        place.index.documents[name] = document
    place.sweep()

    assert set(place.index.documents) == {upload.path, "shared/plan.md", "plan.md"}


def test_sweep_without_the_index_still_sends_messages(place: UploadsInAzure) -> None:
    class Busy(FakeUploadsIndex):
        async def fingerprints(self) -> Any:
            raise IndexUnavailable("It is busy.")

    ready, queued = place.add("anna", "a.md", "A."), place.add("anna", "b.md", "B.")
    place.read(ready)
    place.offset += LATER
    place.index = Busy()
    with pytest.raises(IndexUnavailable):
        place.sweep()

    assert place.sent == [path_of(queued)]


def test_message_is_repeated_if_the_index_does_not_remove(place: UploadsInAzure) -> None:
    class Busy(FakeUploadsIndex):
        async def remove_folder(self, folder: str) -> None:
            raise IndexUnavailable("It is busy.")

    upload = place.add("anna", "a.md", "A.")
    place.read(upload)
    place.delete(upload)
    before, place.index = place.blobs(), Busy()
    with pytest.raises(IndexUnavailable):
        place.read(upload)

    assert place.blobs() == before


@pytest.mark.parametrize("limit", range(1, MOMENTS, 3))
@pytest.mark.parametrize("then", ["repeat", "sweep"])
def test_kill_at_any_moment_leaves_what_is_completed(
    place: UploadsInAzure, limit: int, then: str
) -> None:
    deleted, old = place.add("anna", "deleted.md", "Deleted."), place.add("anna", "plan.md", "Old.")
    place.read(deleted, old)
    place.delete(deleted)
    new = place.add("anna", "plan.md", "New.", replaces=True)
    other = place.add("ben", "plan.md", "Other.")
    moments = place.transport.moments = place.index.moments = Moments(limit)
    try:
        place.read(new, deleted, other)
    except Killed:
        assert place.found("anna") in (["Old."], ["New."], ["Old.", "New."])
    else:
        assert moments.count < MOMENTS  # so that the moments of this test are all there are
    place.transport.moments = place.index.moments = Moments(0)
    if then == "repeat":
        place.read(new, deleted, other)
        assert place.found("anna") == ["New."]
    place.settle()

    assert (place.found("anna"), place.found("ben")) == (["New."], ["Other."])
    assert set(place.index.documents) == {new.path, other.path}
    assert {Path(name).parent.name for name in place.names()} == {"ids", new.id, other.id}
