"""POST /upload, GET /list_uploaded and POST /delete_uploaded: a user's own documents.

Paths, parts and answers are those of azure-search-openai-demo. They
name an upload by its file name, so that a later one of the same name replaces it when it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from multipart import MultipartSegment
from pydantic import BaseModel, Field

from shared.domain.errors import BadRequest, ChatError, NotFound, RequestTimeout
from shared.http.body import read_body, require_object, validate
from shared.http.call import JSON, Reply, dumps
from shared.http.form_stream import read_form
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Handler, Route
from shared.protocols.openapi.operation import WITH_BODY, Operation, object_schema
from shared.protocols.uploads.config import UploadsConfig, find_uploads
from shared.uploads.base import NO_UPLOAD, Draft, Upload, Uploads, clean_name

FILE_PART = "file"
NO_FILE = "is required, the part of the form that holds a file"
UPLOADED = "File uploaded successfully"
STILL_READ = "File uploaded. It is still being read, and found when that is done."
POLL_SECONDS = 0.2
SPARE_SECONDS = 1.0  # before the deadline, for the answer
FORM = object_schema(file={"type": "array", "items": {"type": "string", "format": "binary"}})


class DeleteFields(BaseModel, strict=True):
    """The body of POST /delete_uploaded."""

    filename: str = Field(min_length=1, description="As GET /list_uploaded has returned it.")


async def upload(exchange: Exchange) -> Reply:
    """Store the files of a form, and wait a while for their passages. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    stored = await _store_until_deadline(exchange, uploads, owner)
    end = min(
        asyncio.get_running_loop().time() + exchange.app.config(UploadsConfig).wait_seconds,
        exchange.deadline - SPARE_SECONDS,
    )
    done = await exchange.wait_for(_wait_until_read(uploads, owner, stored, end))
    if failed := [each for each in done if each.state == "failed"]:
        reasons = (f"{each.name}: {each.reason}" for each in failed)
        return _reply(422, " ".join(reasons))
    is_read = all(each.state == "ready" for each in done)
    return _reply(200, UPLOADED) if is_read else _reply(202, STILL_READ)


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
        if loop.time() > end or all(each.state in ("ready", "failed") for each in found):
            return found
        await asyncio.sleep(POLL_SECONDS)


async def list_uploaded(exchange: Exchange) -> Reply:
    """List the names of the caller's uploads. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    found = await exchange.wait_for(uploads.list(owner))
    names = sorted({upload.name for upload in found})
    return Reply(200, JSON, dumps(names), exchange.headers)


async def delete_uploaded(exchange: Exchange) -> Reply:
    """Delete the caller's uploads of a name. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    body = await read_body(exchange.call, exchange.app.limits, forms=False)
    name = validate(DeleteFields, require_object(body.json)).filename
    ids = [it.id for it in await exchange.wait_for(uploads.list(owner)) if it.name == name]
    if not ids:
        raise NotFound(NO_UPLOAD)
    for id in ids:
        with suppress(NotFound):  # replaced meanwhile
            await exchange.wait_for(uploads.delete(owner, id))
    return _reply(200, f"File {name} deleted successfully")


def _reply(status: int, message: str) -> Reply:
    return Reply(status, JSON, dumps({"message": message}), {"Cache-Control": "no-store"})


def _route(
    path: str, methods: Sequence[str], handler: Handler, usage: str, **operation: Any
) -> Route:
    error = context_json.ERROR_SCHEMA
    return Route(
        path=path,
        methods=methods,
        handler=handler,
        errors=context_json.ERRORS,
        operations={methods[0]: Operation(tag="Uploads", error=error, **operation)},
        usage=usage,
    )


ROUTES = (
    _route(
        "/upload",
        ("POST",),
        upload,
        "POST /upload with a form that has a part file for each document",
        summary="Upload documents",
        description="A later upload of the same name replaces the earlier one.",
        request=FORM,
        statuses={
            200: "They are stored and found.",
            202: "They are stored, and still being read.",
            422: "A file cannot be read: `message` says why.",
        },
        errors=(*WITH_BODY, 404, 429),
    ),
    _route(
        "/list_uploaded",
        READ,
        list_uploaded,
        "GET /list_uploaded",
        summary="List the names of your uploads",
        errors=(404,),
    ),
    _route(
        "/delete_uploaded",
        ("POST",),
        delete_uploaded,
        'POST /delete_uploaded with a body such as {"filename": "report.pdf"}',
        summary="Delete an upload",
        request=DeleteFields,
        errors=(*WITH_BODY, 404),
    ),
)
