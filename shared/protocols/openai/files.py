"""The files of OpenAI's API: a user's own documents.

Source: the public reference of the Files API. `status` is deprecated there, and the only field that
tells when a file can be searched; OpenAI's libraries wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from shared.domain.errors import NotFound
from shared.http.call import Json, Reply
from shared.protocols.exchange import Exchange, Route
from shared.protocols.openai.operations import ERROR
from shared.protocols.openai.request import FieldError
from shared.protocols.openai.response import CHAT
from shared.protocols.openai.routes import check_access
from shared.protocols.openapi.operation import STRING, WITH_BODY, Operation, object_schema
from shared.protocols.upload_form import UploadForm, find_uploads
from shared.uploads.base import Upload, Uploads

PREFIXES = ("/v1/files", "/openai/v1/files", "/openai/files")
PURPOSE = "user_data"
STATUSES: Mapping[str, str] = {
    "queued": "uploaded",
    "reading": "uploaded",
    "ready": "processed",
    "failed": "error",
}
MAX_LIMIT = 10_000
NO_PURPOSE = f"must be {PURPOSE}: the files here are documents that are searched"
NO_EXPIRY = "is not available here: leave it out, and delete the file when it is no longer needed"
FORM = object_schema(
    file={"type": "string", "format": "binary"}, purpose={"type": "string", "enum": [PURPOSE]}
)


async def files(exchange: Exchange) -> Reply:
    """Store a file, or list those of the caller. Raises ChatErrors."""
    uploads, owner = _authorize(exchange)
    if exchange.call.method == "POST":
        form = UploadForm(uploads, owner, check=_check_fields, max_files=1)
        (upload,) = await form.store(exchange)
        return exchange.json_reply(describe_file(upload))
    query = exchange.call.query
    found = await exchange.wait_for(uploads.list(owner))
    if query.get("purpose", PURPOSE) != PURPOSE:
        found = ()
    return exchange.json_reply(_page(found, query))


def _authorize(exchange: Exchange) -> tuple[Uploads, str]:
    """Return the store, and the id of the caller who owns files. Raises ChatErrors."""
    check_access(exchange)
    exchange.identify(CHAT)
    return find_uploads(exchange)


def _check_fields(fields: Mapping[str, str]) -> None:
    if fields.get("purpose") != PURPOSE:
        raise FieldError("purpose", NO_PURPOSE)
    if expiry := next((name for name in fields if name.startswith("expires_after")), None):
        raise FieldError(expiry, NO_EXPIRY)


async def file(exchange: Exchange) -> Reply:
    """Describe or delete a file of the caller. Raises ChatErrors."""
    uploads, owner = _authorize(exchange)
    id = exchange.call.path
    upload = (await exchange.wait_for(uploads.get(owner, [id]))).get(id)
    if upload is None:
        raise NotFound(f"There is no file with the id {id!r:.100}, or it is not yours.")
    if exchange.call.method == "DELETE":
        await exchange.wait_for(uploads.delete(owner, id))
        return exchange.json_reply({"id": id, "object": "file", "deleted": True})
    return exchange.json_reply(describe_file(upload))


def describe_file(upload: Upload) -> Json:
    """Return the JSON of a file; `created_at` is in seconds since 1970."""
    return {
        "id": upload.id,
        "object": "file",
        "bytes": upload.size,
        "created_at": int(upload.created),
        "filename": upload.name,
        "purpose": PURPOSE,
        "status": STATUSES[upload.state],
        "status_details": upload.reason or None,
    }


def _page(uploads: Sequence[Upload], query: Mapping[str, str]) -> Json:
    """Return a page of a list. Raises FieldError."""
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise FieldError("order", "must be asc or desc")
    ordered = list(uploads) if order == "asc" else list(reversed(uploads))
    ids = [upload.id for upload in ordered]
    if (after := query.get("after")) is not None:
        if after not in ids:
            raise FieldError("after", "is the id of no file of yours")
        ordered = ordered[ids.index(after) + 1 :]
    limit = _read_limit(query.get("limit"))
    data = [describe_file(upload) for upload in ordered[:limit]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(ordered) > limit,
    }


def _read_limit(value: str | None) -> int:
    if value is None:
        return MAX_LIMIT
    if not (re.fullmatch("[0-9]{1,5}", value) and 1 <= int(value) <= MAX_LIMIT):
        raise FieldError("limit", f"must be a number from 1 to {MAX_LIMIT}")
    return int(value)


_operation = partial(Operation, tag="OpenAI files", error=ERROR, app_key=True)
OPERATIONS = {
    "POST": _operation(
        summary="Store a file",
        description="It is a document that its owner alone can ask about.",
        request=FORM,
        request_type="multipart/form-data",
        errors=(*WITH_BODY, 404, 429),
    ),
    "GET": _operation(
        summary="List your files",
        query={name: STRING for name in ("purpose", "limit", "order", "after")},
        errors=(404,),
    ),
}
FILE_OPERATIONS = {
    "GET": _operation(summary="Describe a file", errors=(404,)),
    "DELETE": _operation(summary="Delete a file", errors=(404,)),
}
_route = partial(Route, errors=CHAT, auth="anonymous")


def _routes(prefix: str) -> tuple[Route, ...]:
    return (
        _route(
            path=prefix,
            methods=("GET", "POST", "HEAD"),
            handler=files,
            operations=OPERATIONS,
            usage=f"GET {prefix}, or POST {prefix} with a form that has a file and a purpose",
        ),
        _route(
            path=f"{prefix}/{{id}}",
            methods=("GET", "DELETE", "HEAD"),
            handler=file,
            operations=FILE_OPERATIONS,
        ),
    )


ROUTES = tuple(route for prefix in PREFIXES for route in _routes(prefix))
