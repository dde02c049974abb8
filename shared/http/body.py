"""Reads the body of a call under limits of size, time and nesting: JSON or a form."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.message import Message as Header
from io import BytesIO
from typing import Any

from multipart import MultipartError, MultipartParser, ParserLimitReached
from pydantic_core import from_json

from shared.chat.errors import (
    BadRequest,
    DeadlineExceeded,
    TooLarge,
    UnsupportedMediaType,
)
from shared.http.call import MAX_HEADER_LENGTH, Call, Limits


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body: its JSON value, and the other parts of a form by their names.

    `size` is that of the JSON, in bytes.
    """

    json: Any
    files: Mapping[str, bytes]
    size: int = 0


MAX_PARTS, MAX_PART_HEADERS = 200, 32  # of a form, of each of its parts
# Lists and objects of a body: 4 MB of them would stop every other request for seconds.
MAX_CONTAINERS = 250_000


async def read_body(call: Call, limits: Limits, deadline: float, forms: bool = True) -> Body:
    """The body of a request, JSON or (`forms`) a form with images, read until `deadline`.

    Raises UnsupportedMediaType, TooLarge (while reading), DeadlineExceeded, BadRequest, ClientGone.
    """
    header = _content_type_header(call.headers)
    kind = _check_media_type(header, call.headers)
    form = kind == "multipart/form-data"
    if form and not forms:
        raise UnsupportedMediaType
    data = await _read_bytes(call, limits.form_bytes if form else limits.json_bytes, deadline)
    if not form:
        return Body(parse_json(data), {}, len(data))
    if len(data) > limits.json_bytes:  # a small form is read faster than a thread is started
        return await asyncio.to_thread(_parse_form, data, header, limits)
    return _parse_form(data, header, limits)


async def read_optional_json(call: Call, limits: Limits, deadline: float) -> Any:
    """The JSON of a request that may come without a body: then an empty object.

    Raises what `read_body` raises.
    """
    data = await _read_bytes(call, limits.json_bytes, deadline)
    if not data.strip():
        return {}
    # Also of a laptop's app: a page of another site can send JSON, but not call it so.
    if _check_media_type(_content_type_header(call.headers), call.headers) != "application/json":
        raise UnsupportedMediaType
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """JSON as UTF-8. Refused where `json.loads` lets it through: NaN, lone surrogates, depth, size.

    Brackets in texts count as lists and objects: telling them apart would mean to read it all.
    """
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        said = f"more than {MAX_CONTAINERS:,} lists and objects (brackets in texts count)"
        raise BadRequest(f"The JSON body has {said}.")
    try:
        return from_json(data.removeprefix(b"\xef\xbb\xbf"), allow_inf_nan=False)
    except ValueError as error:
        place = str(error).partition(" at line ")[2]
        where = f" (line {place})" if place else ""
        raise BadRequest(f"The body is not valid JSON{where}.") from None


def _content_type_header(headers: Mapping[str, str]) -> Header:
    """The Content-Type, to be read in its parts. Raises UnsupportedMediaType if it is too long."""
    if len(headers.get("content-type", "")) > MAX_HEADER_LENGTH:
        raise UnsupportedMediaType(
            f"The Content-Type has more than {MAX_HEADER_LENGTH} characters."
        )
    header = Header()
    header["content-type"] = headers.get("content-type", "")
    return header


def _check_media_type(header: Header, headers: Mapping[str, str]) -> str:
    kind = header.get_content_type() if header["content-type"] else "missing"
    charset = str(header.get_content_charset("utf-8"))
    encoded = _content_encoding(headers) not in ("", "identity", "gzip")
    if kind not in ("application/json", "multipart/form-data"):
        raise UnsupportedMediaType(
            f"The Content-Type is {kind}. Send the request as application/json "
            "(or multipart/form-data, with files)."
        )
    if charset not in ("", "utf-8", "utf8", "us-ascii", "ascii") or encoded:
        raise UnsupportedMediaType("Send the body as UTF-8, plain or with gzip.")
    return kind


def _content_encoding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower()


async def _read_bytes(call: Call, limit: int, deadline: float) -> bytes:
    """The bytes of a body, read until `deadline`. Raises DeadlineExceeded, TooLarge, BadRequest."""
    body = _limit_size(call.body, limit)
    if _content_encoding(call.headers) == "gzip":
        body = _limit_size(_decompress_gzip(body, limit), limit)
    try:
        async with asyncio.timeout_at(deadline):
            return b"".join([chunk async for chunk in body])
    except TimeoutError:
        raise DeadlineExceeded("The request did not arrive in time. Send it again.") from None


async def _limit_size(body: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """The same chunks. Raises TooLarge where they become more bytes than the limit."""
    came = 0
    async for chunk in body:
        came += len(chunk)
        if came > limit:
            raise TooLarge(f"The request is larger than {limit} bytes, the limit here.")
        yield chunk


async def _decompress_gzip(body: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """What a gzip body holds, never more than a little over `limit` at once."""
    unzip, empty = zlib.decompressobj(zlib.MAX_WBITS | 16), True
    try:
        async for chunk in body:
            empty = empty and not chunk
            yield unzip.decompress(chunk, limit + 1)
            if unzip.unused_data:
                raise BadRequest("The body is said to be gzip and goes on behind its end.")
        yield unzip.flush()
    except zlib.error:
        raise BadRequest("The body is said to be gzip and is not.") from None
    if not empty and not unzip.eof:
        raise BadRequest("The body is said to be gzip and breaks off.")


def _parse_form(data: bytes, header: Header, limits: Limits) -> Body:
    boundary = header.get_boundary("")
    try:
        parser = MultipartParser(
            BytesIO(data),
            boundary,
            header_limit=MAX_PART_HEADERS,
            part_limit=MAX_PARTS,
            spool_limit=limits.form_bytes,
            memory_limit=limits.form_bytes,
        )
        parts = [(part.name or "", part.raw) for part in parser]
    except ParserLimitReached:
        said = f"The form has more than {MAX_PARTS} parts, or a part with too many headers."
        raise BadRequest(said) from None
    except MultipartError:
        raise BadRequest("The form cannot be read: it is not valid multipart/form-data.") from None
    if len({name for name, _ in parts}) < len(parts):
        raise BadRequest("The form has two parts of the same name.")
    document = next((raw for name, raw in parts if name == "json"), None)
    if document is None:
        raise BadRequest("json: is required, a part of the form with the request in it")
    if len(document) > limits.json_bytes:
        raise TooLarge(f"The part json is larger than {limits.json_bytes} bytes, the limit here.")
    files = {name: raw for name, raw in parts if name != "json"}
    return Body(parse_json(document), files, len(document))
