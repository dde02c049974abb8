"""The methods of the resources: each document is one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from shared.domain.errors import NotFound
from shared.domain.events import decode_path
from shared.http.call import Json, Reply
from shared.protocols.mcp import documents
from shared.protocols.mcp.messages import HOUR, InvalidParams, Request, ResourceNotFound
from shared.retrieval.base import can_be_indexed

TEMPLATE = {
    "uriTemplate": f"{documents.SCHEME}{{+path}}",
    "name": "document",
    "title": "A document",
    "description": "The text of a document by its path, or of one page: path#page=3.",
    "mimeType": documents.TEXT_TYPE,
}
PAGE_SIZE = 200  # files of a page of `resources/list`
_CURSOR = "after:"


async def list_resources(request: Request) -> Reply:
    """List the files of which the user may see a passage, in pages."""
    after = _parse_cursor(request.message.params.get("cursor"))
    retriever, overrides = request.exchange.rag.retriever, request.with_filters()
    files: Sequence[str] = ()
    if can_be_indexed(after):
        async with request.exchange.app.lookups:
            # One more than a page shows whether there is another page.
            files = await retriever.list_files(request.user, overrides, after, PAGE_SIZE + 1)
    page = files[:PAGE_SIZE]
    result: Json = {"resources": [_format_resource(file) for file in page]}
    if len(files) > PAGE_SIZE:
        result["nextCursor"] = _format_cursor(page[-1])
    return request.reply(result, 0, "private")


def _format_resource(file: str) -> Json:
    return {
        "uri": documents.to_uri(file),
        "name": decode_path(file),
        "mimeType": documents.TEXT_TYPE,
    }


def _format_cursor(file: str) -> str:
    return base64.urlsafe_b64encode(f"{_CURSOR}{file}".encode()).decode()


def _parse_cursor(cursor: Any) -> str:
    """Return the file that a page comes after. Raises InvalidParams."""
    if cursor is None:
        return ""
    try:
        text = base64.urlsafe_b64decode(cursor).decode()
    except (TypeError, ValueError, binascii.Error):
        text = ""
    if not text.startswith(_CURSOR):
        raise InvalidParams("cursor: is not one of this server")
    return text.removeprefix(_CURSOR)


async def read_resource(request: Request) -> Reply:
    """Return the text of a document, or of a page of it. Raises ResourceNotFound."""
    uri = request.message.params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams("uri: is required, a string")
    if not uri.startswith(documents.SCHEME) or len(uri) > documents.MAX_ID:
        raise ResourceNotFound(uri)
    try:
        document = await request.fetch(documents.to_id(uri))
    except NotFound:
        raise ResourceNotFound(uri) from None
    contents = {"uri": uri, "mimeType": documents.TEXT_TYPE, "text": document["text"]}
    return request.reply({"contents": [contents]}, 0, "private")


async def list_templates(request: Request) -> Reply:
    """List the templates of URIs."""
    request.check_no_cursor()
    return request.reply({"resourceTemplates": [TEMPLATE]}, HOUR)
