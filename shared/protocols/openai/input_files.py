"""The files that messages of OpenAI's clients name: uploads of the caller, which were read before.

A file inside of a request (`file_data`, `file_url`) is refused: no request reads a document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shared.domain.errors import BadRequest, NotFound
from shared.domain.messages import FileReference
from shared.domain.request import ChatRequest
from shared.protocols.exchange import Exchange
from shared.protocols.upload_form import find_uploads
from shared.uploads.base import Upload

MAX_FILES = 20  # different ones, of a request
TOO_MANY = f"is one file too many: a request names {MAX_FILES} different ones at most"
NO_FILE = "is the id of no file of yours"
NOT_READY = "is the id of a file that is not processed yet: ask again when its status is processed"
NOT_READABLE = "is the id of a file that could not be read: {reason}"


async def name_documents(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return the request with the documents that its messages name.

    Raises BadRequest for a file that cannot be used, Forbidden for a caller who owns none.
    """
    references = [each for message in request.messages for each in message.files]
    if not references or request.grounding == "none":
        return request
    try:
        store, owner = find_uploads(exchange)
    except NotFound as failure:
        raise BadRequest(failure.message, field=references[0].field) from None
    uploads = {each.id: each for each in await exchange.wait_for(store.list(owner))}
    named: dict[str, None] = {}
    for reference in references:
        named[_find(uploads, reference).sourcefile] = None
        if len(named) > MAX_FILES:
            raise BadRequest(TOO_MANY, field=reference.field)
    return replace(request, documents=tuple(named))


def _find(uploads: Mapping[str, Upload], reference: FileReference) -> Upload:
    """Return the upload that is named. Raises BadRequest."""
    upload = uploads.get(reference.id)
    if upload is None:
        raise BadRequest(NO_FILE, field=reference.field)
    if upload.state == "failed":
        raise BadRequest(NOT_READABLE.format(reason=upload.reason), field=reference.field)
    if upload.state != "ready":
        raise BadRequest(NOT_READY, field=reference.field)
    return upload
