"""Reads a form in chunks: its files are larger than what should be in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from multipart import MultipartError, MultipartSegment, PushMultipartParser

from shared.domain.errors import BadRequest, RequestTimeout, UnsupportedMediaType
from shared.http.body import MAX_PART_HEADERS, MAX_PARTS, map_form_errors, parse_content_type
from shared.http.call import Call

NO_FORM = "Send the files as multipart/form-data."
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
    with map_form_errors():
        parser = PushMultipartParser(
            header.get_boundary(""),
            max_header_count=MAX_PART_HEADERS,
            max_segment_count=MAX_PARTS,
        )
        async for chunk in _limit_stalls(call.body, stall_seconds):
            for event in parser.parse(chunk) if chunk else ():
                yield event
        _check_complete(parser)


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
