"""POST /upload: stores the documents of a form, and waits a while until they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from multipart import MultipartSegment

from shared.domain.errors import BadRequest, ChatError, RequestTimeout
from shared.http.call import JSON, Reply, acceptable_values, dumps
from shared.http.form_stream import read_form
from shared.protocols.exchange import Exchange
from shared.protocols.uploads.config import UploadsConfig, find_uploads
from shared.uploads.base import Draft, Upload, Uploads, clean_name

FILE_PART = "file"
NO_FILE = "is required, the part of the form that holds a file"
UPLOADED = "File uploaded successfully"
STILL_READ = "File uploaded. It is still being read, and found when that is done."
POLL_SECONDS = 0.2
SPARE_SECONDS = 1.0  # before the deadline, for the answer
NO_WAIT = "respond-async"  # in `Prefer`: RFC 7240, section 4.1


async def upload(exchange: Exchange) -> Reply:
    """Store the files of a form, and wait a while for their passages. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    stored = await _store_until_deadline(exchange, uploads, owner)
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


async def _store_until_deadline(exchange: Exchange, uploads: Uploads, owner: str) -> list[Upload]:
    """Store the files of a form. Raises ChatErrors, RequestTimeout at the deadline."""
    try:
        # Not `wait_for`: asking a server whether the client is there takes pieces of the body.
        async with asyncio.timeout_at(exchange.deadline) as limit:
            return await _store_files(exchange, uploads, owner)
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestTimeout from None


async def _store_files(exchange: Exchange, uploads: Uploads, owner: str) -> list[Upload]:
    """Store all files of a form, or none of them if one cannot be stored. Raises ChatErrors."""
    drafts: list[Draft] = []
    try:
        current: Draft | None = None
        async for event in read_form(exchange.call, exchange.app.limits.body_seconds):
            if isinstance(event, MultipartSegment):
                current = await _begin(uploads, owner, event)
                drafts += [current] if current else []
            elif event and current:
                await current.write(bytes(event))
        if not drafts:
            raise BadRequest(NO_FILE, field=FILE_PART)
        commits = asyncio.ensure_future(_commit_all(uploads, owner, drafts))
        try:
            return await asyncio.shield(commits)
        finally:
            await asyncio.wait({commits})  # also after a cancellation: it is not cut
    finally:
        for draft in drafts:
            await draft.discard()


async def _commit_all(uploads: Uploads, owner: str, drafts: Iterable[Draft]) -> list[Upload]:
    """Store all drafts, or none of them if one cannot be stored. Raises ChatErrors."""
    stored: list[Upload] = []
    try:
        for draft in drafts:
            stored.append(await draft.commit(replace=True))
    except ChatError:
        for upload in stored:
            await uploads.delete(owner, upload.id)
        raise
    return stored


async def _begin(uploads: Uploads, owner: str, part: MultipartSegment) -> Draft | None:
    """Begin the upload of a part of the form; None for a part that is no file."""
    if part.name != FILE_PART or part.filename is None:
        return None
    return await uploads.begin(owner, clean_name(part.filename))


async def _wait_until_read(
    uploads: Uploads, owner: str, stored: Iterable[Upload], end: float
) -> list[Upload]:
    """Return the uploads when all are read, or as they are at `end`, by the loop's clock."""
    loop = asyncio.get_running_loop()
    ids = {upload.id for upload in stored}
    while True:
        found = [each for each in await uploads.list(owner) if each.id in ids]
        if loop.time() >= end or all(each.state in ("ready", "failed") for each in found):
            return found
        await asyncio.sleep(POLL_SECONDS)


def _reply(status: int, message: str) -> Reply:
    return Reply(status, JSON, dumps({"message": message}), {"Cache-Control": "no-store"})
