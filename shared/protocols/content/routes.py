"""GET and HEAD of a citation's file, for users who may find it; others get the same 404."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from email.utils import formatdate

from shared.chat.errors import DeadlineExceeded, NotFound
from shared.chat.overrides import UNSET
from shared.files.base import TIMEOUT_MESSAGE, File
from shared.files.conditional_requests import is_not_modified, parse_range
from shared.files.media_types import add_charset, disposition_headers, guess_media_type
from shared.http.call import Call, Reply, cancel_on_disconnect
from shared.protocols import context_json
from shared.protocols.content.paths import candidates
from shared.protocols.exchange import Exchange
from shared.protocols.route import READ, Route
from shared.rag.deadline import with_deadline
from shared.retrieval.base import Retriever

HEAD = 64 * 1024  # bytes of a text that its charset is guessed from

# A browser revalidates its copy each time: a right may be taken back.
CACHE_HEADERS = {"Cache-Control": "private, no-cache", "Accept-Ranges": "bytes"}


async def content(exchange: Exchange) -> Reply:
    """Answer a call until its deadline. Raises ChatErrors."""
    work = _open(exchange, exchange.engine.retriever)
    return await cancel_on_disconnect(work, exchange.call.is_disconnected)


async def _open(exchange: Exchange, retriever: Retriever) -> Reply:
    files, call, deadline = exchange.app.files, exchange.call, exchange.deadline
    if files is None:
        raise NotFound("This deployment serves no documents.")
    try:
        async with asyncio.timeout_at(deadline):
            name = await _name(exchange, retriever)
            file = await files.open(name)
            if is_not_modified(call.headers, file):
                return Reply(304, guess_media_type(name), b"", _cache_headers(file))
            media_type = await _media_type(name, file)
    except TimeoutError:
        raise DeadlineExceeded(TIMEOUT_MESSAGE) from None
    return _answer(call, name, media_type, file, deadline)


async def _name(exchange: Exchange, retriever: Retriever) -> str:
    """The file of the path, if the user may find it. Raises NotFound."""
    access, call = exchange.app.access, exchange.call
    user = access.get_user(call.headers)
    overrides = access.apply_filters(user, UNSET)
    for candidate in candidates(call.path):
        if await retriever.readable(user, candidate.sourcefile, overrides):
            return candidate.name
    raise NotFound


async def _media_type(name: str, file: File) -> str:
    """The media type of a file, with the charset of a text by its beginning."""
    media_type = guess_media_type(name)
    if not media_type.startswith("text/") or not file.size:
        return media_type
    async with aclosing(file.read(0, min(HEAD, file.size))) as pieces:
        return add_charset(media_type, await anext(pieces, b""))


def _cache_headers(file: File) -> dict[str, str]:
    """The headers by which a browser revalidates its copy."""
    return {
        **CACHE_HEADERS,
        "ETag": file.etag,
        "Last-Modified": formatdate(file.modified, usegmt=True),
    }


def _answer(call: Call, name: str, media_type: str, file: File, deadline: float) -> Reply:
    headers = _cache_headers(file) | disposition_headers(name)
    byte_range = parse_range(call.headers, file) if call.method == "GET" else None
    start, stop = byte_range or (0, file.size)
    headers["Content-Length"] = str(stop - start)
    if byte_range:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    status = 206 if byte_range else 200
    if call.method == "HEAD" or start == stop:
        return Reply(status, media_type, b"", headers)
    rest = with_deadline(deadline, file.read(start, stop))
    return Reply(status, media_type, b"", headers, rest, deadline)


ROUTES = (
    Route(
        path="/content/{path}",
        methods=READ,
        handler=content,
        errors=context_json.ERRORS,
        usage="GET /content/{path}, where path is a citation's",
        name="content",
        pattern="content/{*path}",
    ),
)
