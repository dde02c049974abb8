"""Reads a form in chunks: its files are larger than what should be in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser

from shared.domain.errors import BadRequest, RequestTimeout, UnsupportedMediaType
from shared.http.body import MAX_PART_HEADERS, MAX_PARTS, parse_content_type
from shared.http.call import Call

NO_FORM = "Send the files as multipart/form-data."
TOO_MANY_PARTS = f"The form has more than {MAX_PARTS} parts, or a part with too many headers."
INVALID_FORM = "The form cannot be read: it is not valid multipart/form-data."
INCOMPLETE_FORM = "The form ends before it is complete: send it again."

FormEvent: TypeAlias = MultipartSegment | bytes | bytearray | None
"""The start of a part, some of its bytes, or its end."""


async def read_form(call: Call, stall_seconds: float) -> AsyncIterator[FormEvent]:
    """Yield the events of a form. Its size is not limited: the caller counts.

    Raises UnsupportedMediaType, BadRequest, RequestTimeout (no bytes for `stall_seconds`),
    ClientDisconnected.
    """
    header = parse_content_type(call.headers)
    if header.get_content_type() != "multipart/form-data" or "content-encoding" in call.headers:
        raise UnsupportedMediaType(NO_FORM)
    try:
        parser = PushMultipartParser(
            header.get_boundary(""),
            max_header_count=MAX_PART_HEADERS,
            max_segment_count=MAX_PARTS,
        )
        async for chunk in _limit_stalls(call.body, stall_seconds):
            for event in parser.parse(chunk) if chunk else ():
                yield event
        _check_complete(parser)
    except ParserLimitReached:
        raise BadRequest(TOO_MANY_PARTS) from None
    except (MultipartError, UnicodeError):  # of the boundary
        raise BadRequest(INVALID_FORM) from None


def _check_complete(parser: PushMultipartParser) -> None:
    try:
        parser.close()
    except MultipartError:
        raise BadRequest(INCOMPLETE_FORM) from None


async def _limit_stalls(body: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Pass chunks through. Raises RequestTimeout if one does not arrive in time."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                chunk = await anext(body, None)
        except TimeoutError:
            raise RequestTimeout from None
        if chunk is None:
            return
        yield chunk
