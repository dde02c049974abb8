"""POST /upload: stores the documents of a form, and waits a while until they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from shared.http.call import JSON, Reply, acceptable_values, dumps
from shared.protocols.exchange import Exchange
from shared.protocols.upload_form import UploadForm, UploadsConfig, find_uploads
from shared.uploads.base import Upload, Uploads

UPLOADED = "File uploaded successfully"
STILL_READ = "File uploaded. It is still being read, and found when that is done."
POLL_SECONDS = 0.2
SPARE_SECONDS = 1.0  # before the deadline, for the answer
NO_WAIT = "respond-async"  # in `Prefer`: RFC 7240, section 4.1


async def upload(exchange: Exchange) -> Reply:
    """Store the files of a form, and wait a while for their passages. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    stored = await UploadForm(uploads, owner, replace=True).store(exchange)
    end = _wait_end(exchange)
    done = await exchange.wait_for(_wait_until_read(uploads, owner, stored, end))
    if failed := [each for each in done if each.state == "failed"]:
        reasons = (f"{each.name}: {each.reason}" for each in failed)
        return _reply(422, " ".join(reasons))
    is_read = all(each.state == "ready" for each in done)
    return _reply(200, UPLOADED) if is_read else _reply(202, STILL_READ)


def _wait_end(exchange: Exchange) -> float:
    """Return the time at which a caller gets an answer in any case, by the loop's clock."""
    now = asyncio.get_running_loop().time()
    if NO_WAIT in acceptable_values(exchange.call.headers.get("prefer", "")):
        return now
    seconds = exchange.app.config(UploadsConfig).wait_seconds
    return min(now + seconds, exchange.deadline - SPARE_SECONDS)


async def _wait_until_read(
    uploads: Uploads, owner: str, stored: Iterable[Upload], end: float
) -> list[Upload]:
    """Return the uploads when all are read, or as they are at `end`, by the loop's clock."""
    loop = asyncio.get_running_loop()
    ids = [upload.id for upload in stored]
    while True:
        found = (await uploads.get(owner, ids)).values()
        if loop.time() >= end or all(each.state in ("ready", "failed") for each in found):
            return list(found)
        await asyncio.sleep(POLL_SECONDS)


def _reply(status: int, message: str) -> Reply:
    return Reply(status, JSON, dumps({"message": message}), {"Cache-Control": "no-store"})
