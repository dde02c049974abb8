"""The limit of the messages of a sweep."""

from __future__ import annotations

import asyncio
from typing import Any

from ingest.uploads.sweep import MAX_READ_AGAIN, UploadsSweep
from shared.uploads.base import make_id
from shared.uploads.blob.layout import RECORD_KEY, RESULT_KEY, StoredBlob, encode, upload_path
from shared.uploads.records import Record, Result
from tests.support.fake_uploads_index import FakeUploadsIndex


class Listing:
    """A container with uploads in a state."""

    def __init__(self, **states: int) -> None:
        self.blobs = [
            blob
            for state, count in states.items()
            for _ in range(count)
            for blob in upload_blobs(state)
        ]

    async def list(self) -> list[StoredBlob]:
        return self.blobs


def upload_blobs(state: Any) -> list[StoredBlob]:
    path = upload_path("anna", make_id())
    record = Record(owner="anna", name="plan.md", size=1, created=0)
    result = Result(state=state)
    return [
        StoredBlob(f"{path}/content.md", 1, 0, {RECORD_KEY: encode(record)}),
        StoredBlob(f"{path}/result", 0, 0, {RESULT_KEY: encode(result)}),
    ]


def test_many_outdated_uploads_hold_up_no_new_ones() -> None:
    sent, container = list[str](), Listing(ready=MAX_READ_AGAIN + 1, queued=MAX_READ_AGAIN + 1)

    async def send(path: str) -> None:
        sent.append(path)

    sweep: Any = UploadsSweep
    asyncio.run(sweep(container, FakeUploadsIndex(), send, "2").run())

    queued = {b.name.rpartition("/")[0] for b in container.blobs[2 * (MAX_READ_AGAIN + 1) :]}
    assert set(sent[: len(queued)]) == queued
    assert len(sent) == len(queued) + MAX_READ_AGAIN
