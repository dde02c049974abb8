"""GET and HEAD of a citation's file, for users who may find it; others get the same 404."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from email.utils import formatdate

from shared.chat.errors import DeadlineExceeded, NotFound
from shared.chat.overrides import UNSET
from shared.files.base import TIMEOUT_MESSAGE, File, Files
from shared.files.conditional_requests import is_not_modified, parse_range
from shared.files.media_types import add_charset, disposition_headers, guess_media_type
from shared.http.auth import AccessPolicy
from shared.http.call import Call, Reply
from shared.protocols.content.paths import candidates
from shared.rag.deadline import with_deadline
from shared.retrieval.base import Retriever

HEAD = 64 * 1024  # bytes of a text by which its characters are told

# A browser keeps it for this user, and asks again each time: a right may be taken back.
CACHE_HEADERS = {"Cache-Control": "private, no-cache", "Accept-Ranges": "bytes"}


@dataclass(frozen=True, slots=True)
class FileHandler:
    """The files of a deployment, and what says who may open which."""

    files: Files
    retriever: Retriever
    access: AccessPolicy

    async def reply(self, call: Call, deadline: float) -> Reply:
        """What a call gets until `deadline`; its stream has not begun. Raises ChatErrors."""
        try:
            async with asyncio.timeout_at(deadline):
                name = await self._name(call)
                file = await self.files.open(name)
                if is_not_modified(call.headers, file):
                    return Reply(304, guess_media_type(name), b"", _cache_headers(file))
                media_type = await _media_type(name, file)
        except TimeoutError:
            raise DeadlineExceeded(TIMEOUT_MESSAGE) from None
        return _answer(call, name, media_type, file, deadline)

    async def _name(self, call: Call) -> str:
        """The file that is meant, of those that the user could find. Raises NotFound."""
        user = self.access.get_user(call.headers)
        overrides = self.access.apply_filters(user, UNSET)
        for candidate in candidates(call.path):
            if await self.retriever.readable(user, candidate.sourcefile, overrides):
                return candidate.name
        raise NotFound


async def _media_type(name: str, file: File) -> str:
    """What a browser is told of a file; of a text, its beginning is looked at."""
    media_type = guess_media_type(name)
    if not media_type.startswith("text/") or not file.size:
        return media_type
    async with aclosing(file.read(0, min(HEAD, file.size))) as pieces:
        return add_charset(media_type, await anext(pieces, b""))


def _cache_headers(file: File) -> dict[str, str]:
    """By which headers a browser tells whether what it keeps is still good."""
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
