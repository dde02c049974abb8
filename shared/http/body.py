"""Reads request bodies, JSON or forms, under limits of size, time and nesting."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message as Header
from functools import partial
from io import BytesIO
from typing import Any, TypeVar

from multipart import MultipartError, MultipartParser, ParserLimitReached
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from shared.domain.concurrency import run_in_thread_if
from shared.domain.errors import (
    BadRequest,
    RequestTimeout,
    TooLarge,
    UnsupportedMediaType,
    describe_error,
    join_path,
)
from shared.http.call import MAX_HEADER_LENGTH, Call, Limits

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Body:
    """A request body."""

    json: Any
    files: Mapping[str, bytes]  # the other parts of a form, by name
    size: int = 0  # of the JSON, in bytes


MAX_PARTS, MAX_PART_HEADERS = 200, 32  # of a form; of each of its parts
# Lists and objects of a body: parsing 4 MB of them would block other requests for seconds.
MAX_CONTAINERS = 250_000
MAX_INVALID = 3  # invalid fields that one error names
MAX_ERRORS = 10  # of a model that are looked at: an object may have one for each of its keys


Admission = Callable[[], None]
"""Is called when a body has arrived, before it is parsed; raises a ChatError to refuse it."""


def admit_all() -> None:
    """Refuse no body."""


async def read_body(
    call: Call, limits: Limits, forms: bool = True, admit: Admission = admit_all
) -> Body:
    """Read a JSON body or, if `forms` are allowed, a form with images.

    Raises UnsupportedMediaType, TooLarge, RequestTimeout, Overloaded, BadRequest,
    ClientDisconnected, and the errors of `admit`.
    """
    header = parse_content_type(call.headers)
    is_form = header.get_content_type() == "multipart/form-data"
    if is_form and not forms:
        raise UnsupportedMediaType
    with limits.body_memory.reserve() as count:
        size = limits.form_bytes if is_form else limits.json_bytes
        data = await _read_bytes(call, size, limits, count)
        admit()
        if not is_form:
            return Body(parse_json(data), {}, len(data))
        large = len(data) > limits.json_bytes
        return await run_in_thread_if(large, partial(_parse_form, data, header, limits))


async def read_optional_json(call: Call, limits: Limits, admit: Admission = admit_all) -> Any:
    """Read a JSON body that may be missing: an empty object then.

    Raises the errors of `read_body`.
    """
    with limits.body_memory.reserve() as count:
        data = await _read_bytes(call, limits.json_bytes, limits, count)
        admit()
        if not data.strip():
            return {}
        # A page of another site can send JSON, but not this media type without a preflight.
        if parse_content_type(call.headers).get_content_type() != "application/json":
            raise UnsupportedMediaType
        return parse_json(data)


def parse_json(data: bytes) -> Any:
    """Parse JSON in UTF-8. Raises BadRequest.

    Stricter than `json.loads`: rejects NaN, lone surrogates, deep nesting and too many containers.
    Brackets in strings count as containers: to tell them apart would take a full parse.
    """
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        limit = f"{MAX_CONTAINERS:,} lists and objects (brackets in strings count)"
        raise BadRequest(f"The JSON body has more than {limit}.")
    try:
        return from_json(data.removeprefix(b"\xef\xbb\xbf"), allow_inf_nan=False)
    except ValueError as error:
        position = str(error).partition(" at line ")[2]
        suffix = f" (line {position})" if position else ""
        raise BadRequest(f"The body is not valid JSON{suffix}.") from None


def require_object(value: Any) -> dict[str, Any]:
    """Return the JSON of a body that is an object. Raises BadRequest."""
    if not isinstance(value, dict):
        raise BadRequest("The body must be a JSON object.")
    return value


@dataclass(frozen=True, slots=True)
class InvalidField:
    """A field of a request that a model does not allow."""

    path: str  # in the request, such as `messages[0].content`
    message: str
    kind: str  # the type of pydantic's error


def join_messages(fields: Sequence[InvalidField]) -> BadRequest:
    """Return an error that names the first fields, each with its message."""
    texts = (f"{field.path}: {field.message}" for field in fields[:MAX_INVALID])
    return BadRequest("; ".join(texts))


def validate(
    model: type[M],
    value: Any,
    path: str = "",
    fail: Callable[[Sequence[InvalidField]], BadRequest] = join_messages,
) -> M:
    """Validate a body, or a part of one at `path`.

    Raises what `fail` makes of the invalid fields, of which there is one at least.
    """
    try:
        return model.model_validate(value)
    except ValidationError as failure:
        errors = failure.errors(include_url=False, include_input=False)
        prefix = (path,) if path else ()
        fields = [
            InvalidField(join_path((*prefix, *each["loc"])), describe_error(each), each["type"])
            for each in errors[:MAX_ERRORS]
        ]
        raise fail(fields) from None


def without_nulls(value: Any) -> Any:
    """Return an object without its null fields, where null means missing."""
    if not isinstance(value, dict):
        return value
    return {key: field for key, field in value.items() if field is not None}


def allow_nulls(schema: dict[str, Any]) -> None:
    """Change the JSON schema of a model that is parsed `without_nulls`: each field may be null."""
    null = {"type": "null"}
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()) and null not in field.get("anyOf", ()):
            own = {key: field.pop(key) for key in ("default", "description") if key in field}
            schema["properties"][name] = {"anyOf": [field, null], **own}


def parse_content_type(headers: Mapping[str, str]) -> Header:
    """Parse the Content-Type, JSON or a form.

    Raises UnsupportedMediaType for other types and encodings, and for a header that is too long.
    """
    content_type = headers.get("content-type", "")
    if len(content_type) > MAX_HEADER_LENGTH:
        raise UnsupportedMediaType(
            f"The Content-Type has more than {MAX_HEADER_LENGTH} characters."
        )
    header = Header()
    header["content-type"] = content_type
    media_type = header.get_content_type() if content_type else "missing"
    charset = str(header.get_content_charset("utf-8"))
    encoding_supported = _content_encoding(headers) in ("", "identity", "gzip")
    if media_type not in ("application/json", "multipart/form-data"):
        raise UnsupportedMediaType(
            f"The Content-Type is {media_type}. Send the request as application/json "
            "(or multipart/form-data, with files)."
        )
    if charset not in ("", "utf-8", "utf8", "us-ascii", "ascii") or not encoding_supported:
        raise UnsupportedMediaType("Send the body as UTF-8, plain or with gzip.")
    return header


def _content_encoding(headers: Mapping[str, str]) -> str:
    return headers.get("content-encoding", "").strip().lower()


async def _read_bytes(call: Call, size: int, limits: Limits, count: Callable[[int], None]) -> bytes:
    """Read a whole body of at most `size` bytes, which are counted.

    Raises RequestTimeout, TooLarge, Overloaded, BadRequest.
    """
    body = _limit_size(call.body, size)
    if _content_encoding(call.headers) == "gzip":
        body = _limit_size(_decompress_gzip(body, size), size)
    data = bytearray()  # a list of small chunks would take many times their size
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in body:
                count(len(chunk))
                data += chunk
    except TimeoutError:
        raise RequestTimeout from None
    return bytes(data)


async def _limit_size(body: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Pass chunks through. Raises TooLarge when they exceed `limit` bytes in all."""
    total = 0
    async for chunk in body:
        total += len(chunk)
        if total > limit:
            raise TooLarge(f"The request is larger than the limit of {limit} bytes.")
        yield chunk


async def _decompress_gzip(body: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    """Decompress a gzip body; no chunk is much larger than `limit`. Raises BadRequest."""
    decompressor, empty = zlib.decompressobj(zlib.MAX_WBITS | 16), True
    try:
        async for chunk in body:
            empty = empty and not chunk
            yield decompressor.decompress(chunk, limit + 1)
            if decompressor.unused_data:
                raise BadRequest("The gzip body has data after its end.")
        yield decompressor.flush()
    except zlib.error:
        raise BadRequest("The body is not valid gzip.") from None
    if not empty and not decompressor.eof:
        raise BadRequest("The gzip body is truncated.")


@contextmanager
def map_form_errors() -> Iterator[None]:
    """Map the errors of a parser of forms to BadRequest."""
    try:
        yield
    except ParserLimitReached:
        message = f"The form has more than {MAX_PARTS} parts, or a part with too many headers."
        raise BadRequest(message) from None
    except (MultipartError, UnicodeError):  # of the boundary
        raise BadRequest("The form cannot be read: it is not valid multipart/form-data.") from None


def _parse_form(data: bytes, header: Header, limits: Limits) -> Body:
    with map_form_errors():
        parser = MultipartParser(
            BytesIO(data),
            header.get_boundary(""),
            header_limit=MAX_PART_HEADERS,
            part_limit=MAX_PARTS,
            spool_limit=limits.form_bytes,
            memory_limit=limits.form_bytes,
        )
        parts = [(part.name or "", part.raw) for part in parser]
    if len({name for name, _ in parts}) < len(parts):
        raise BadRequest("The form has two parts of the same name.")
    document = next((raw for name, raw in parts if name == "json"), None)
    if document is None:
        raise BadRequest("json: is required, the part of the form that holds the request")
    if len(document) > limits.json_bytes:
        raise TooLarge(f"The part json is larger than {limits.json_bytes} bytes.")
    files = {name: raw for name, raw in parts if name != "json"}
    return Body(parse_json(document), files, len(document))
