"""The routes of a user's own documents.

Paths, parts and answers of POST /upload, GET /list_uploaded and POST /delete_uploaded are those of
azure-search-openai-demo. They name an upload by its file name, so that a later one of the same name
replaces it when it is read. GET /uploads and DELETE /uploads/{id} name it by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, Field

from shared.domain.errors import NotFound
from shared.http.body import read_body, require_object, validate
from shared.http.call import JSON, Json, Reply, dumps
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Handler, Route
from shared.protocols.openapi.operation import STRING, WITH_BODY, Operation, object_schema
from shared.protocols.upload_form import find_uploads
from shared.protocols.uploads.upload import upload
from shared.uploads.base import NO_UPLOAD, Upload

FORM = object_schema(file={"type": "array", "items": {"type": "string", "format": "binary"}})


class DeleteFields(BaseModel, strict=True):
    """The body of POST /delete_uploaded."""

    filename: str = Field(min_length=1, description="As GET /list_uploaded has returned it.")


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
    return exchange.json_reply({"message": f"File {name} deleted successfully"})


async def list_uploads(exchange: Exchange) -> Reply:
    """Describe the caller's uploads, the oldest first, and their limits. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    found = await exchange.wait_for(uploads.list(owner))
    limits = {"max_bytes": uploads.limits.file_bytes, "max_uploads": uploads.limits.files}
    return exchange.json_reply({"uploads": [_describe(each) for each in found], **limits})


def _describe(upload: Upload) -> Json:
    """Describe an upload; `created_at` is in seconds since 1970."""
    return {
        "id": upload.id,
        "filename": upload.name,
        "bytes": upload.size,
        "created_at": int(upload.created),
        "state": upload.state,
        **({"reason": upload.reason} if upload.state == "failed" else {}),
    }


async def delete_upload(exchange: Exchange) -> Reply:
    """Delete one of the caller's uploads. Raises ChatErrors."""
    uploads, owner = find_uploads(exchange)
    await exchange.wait_for(uploads.delete(owner, exchange.call.path))
    return Reply(204, JSON, b"", exchange.headers)


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
        description=(
            "A later upload of the same name replaces the earlier one. "
            "With `Prefer: respond-async` the answer does not wait for the reading."
        ),
        request=FORM,
        request_type="multipart/form-data",
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
        answer={"type": "array", "items": STRING},
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
    _route(
        "/uploads",
        READ,
        list_uploads,
        "GET /uploads",
        summary="Describe your uploads",
        description="`state` is queued, reading, ready, or failed, which has a `reason`.",
        errors=(404,),
    ),
    _route(
        "/uploads/{id}",
        ("DELETE",),
        delete_upload,
        "DELETE /uploads/{id}",
        summary="Delete an upload by its id",
        statuses={204: "It is deleted."},
        media_types=(),
        errors=(404,),
    ),
)
