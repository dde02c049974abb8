"""POST /upload: stores the documents of a form, and waits a while until they are read."""

from __future__ import annotations

import asyncio

from shared.http.call import JSON, Reply, acceptable_values, dumps
from shared.protocols.exchange import Exchange
from shared.protocols.upload_form import UploadForm, find_uploads, wait_end, wait_until_read

UPLOADED = "File uploaded successfully"
STILL_READ = "File uploaded. It is still being read, and found when that is done."
NO_WAIT = "respond-async"  # in `Prefer`: RFC 7240, section 4.1


async def upload(exchange: Exchange) -> Reply:
    """Store the files of a form, and wait a while for their passages. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    stored = await UploadForm(uploads, owner, replace=True).store(exchange)
    ids = [each.id for each in stored]
    done = await exchange.wait_for(wait_until_read(uploads, owner, ids, _wait_end(exchange)))
    if failed := [each for each in done if each.state == "failed"]:
        reasons = (f"{each.name}: {each.reason}" for each in failed)
        return _reply(422, " ".join(reasons))
    is_read = all(each.state == "ready" for each in done)
    return _reply(200, UPLOADED) if is_read else _reply(202, STILL_READ)


def _wait_end(exchange: Exchange) -> float:
    """Return the time at which a caller gets an answer in any case, by the loop's clock."""
    if NO_WAIT in acceptable_values(exchange.call.headers.get("prefer", "")):
        return asyncio.get_running_loop().time()
    return wait_end(exchange)


def _reply(status: int, message: str) -> Reply:
    return Reply(status, JSON, dumps({"message": message}), {"Cache-Control": "no-store"})
