"""GET /content/{path}: the documents behind citations, for those who may read them."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass
from email.utils import formatdate

from shared.domain.concurrency import with_deadline
from shared.domain.errors import DeadlineExceeded, NotFound
from shared.domain.events import MAX_PATH_LENGTH, decode_path, encode_path
from shared.domain.overrides import UNSET
from shared.files.base import TIMEOUT_MESSAGE, File, Files
from shared.files.headers import (
    add_charset,
    disposition_headers,
    guess_media_type,
    is_not_modified,
    parse_range,
)
from shared.http.call import Call, Reply, cancel_on_disconnect
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Route
from shared.protocols.openapi.operation import Operation
from shared.retrieval.base import Retriever, can_be_indexed

HEAD = 64 * 1024  # bytes of a text that its charset is guessed from

# A browser revalidates its copy each time: a right may be taken back.
CACHE_HEADERS = {"Cache-Control": "private, no-cache", "Accept-Ranges": "bytes"}

_SLASH = re.compile(r"%2F", re.IGNORECASE)


def candidates(link_path: str) -> tuple[str, ...]:
    """Return the names of the files that a link's path may mean, the likeliest first.

    The path is decoded once, but for `%2F`, which hosts pass on unchanged. A client that encodes
    the citation once more sends the `sourcefile` itself. No name leads out of the root folder.
    """
    paths = dict.fromkeys((_SLASH.sub("/", link_path), link_path))
    names = (name for path in paths for name in (path, _decode_again(path)))
    return tuple(dict.fromkeys(name for name in names if _is_inside(name)))


def _decode_again(path: str) -> str:
    name = decode_path(path)
    # Only what the index itself would have made: no second spelling of a name.
    return name if encode_path(name) == path else path


def _is_inside(name: str) -> bool:
    """Return whether a name can be a file's below the root folder, on any system."""
    climbs = any(part in ("", ".", "..") for part in name.split("/"))
    # A backslash parts names on some systems; elsewhere it is a letter like others.
    climbs |= ".." in name.replace("\\", "/").split("/")
    return not climbs and len(name) <= MAX_PATH_LENGTH and "\0" not in name


@dataclass(frozen=True, slots=True)
class ContentConfig:
    """Where the files of the documents are."""

    files: Files | None = None


async def content(exchange: Exchange) -> Reply:
    """Answer a call until its deadline. Raises ChatErrors."""
    work = _open(exchange, exchange.rag.retriever)
    return await cancel_on_disconnect(work, exchange.call.is_disconnected)


async def _open(exchange: Exchange, retriever: Retriever) -> Reply:
    call, deadline = exchange.call, exchange.deadline
    files = exchange.app.config(ContentConfig).files
    if files is None:
        raise NotFound("This deployment serves no documents.")
    try:
        async with asyncio.timeout_at(deadline), exchange.app.lookups:
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
        name = encode_path(candidate)
        if can_be_indexed(name) and await retriever.readable(user, name, overrides):
            return candidate
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
        operations={
            "GET": Operation(
                tag="App",
                summary="Return the file behind a citation",
                description="The path may have slashes, encoded or not.",
                media_types=("*/*",),
                statuses={
                    200: "The file.",
                    206: "The range of the file that was requested.",
                    304: "The client has the file.",
                },
                errors=(404, 416),
                error=context_json.ERROR_SCHEMA,
            )
        },
        usage="GET /content/{path}, where path is a citation's",
        name="content",
        pattern="content/{*path}",
    ),
)
