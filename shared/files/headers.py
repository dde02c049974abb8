"""Headers of a file: conditional and range requests (RFC 9110), media type and disposition.

A request for several ranges gets the whole file, as the RFC allows."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from urllib.parse import quote

from shared.domain.errors import RangeNotSatisfiable
from shared.files.base import File

_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.IGNORECASE)
_ETAG = re.compile(r'"[^"]*"')


def is_not_modified(headers: Mapping[str, str], file: File) -> bool:
    """Whether the client has the current content. `If-None-Match` precedes the date."""
    tags = headers.get("if-none-match")
    if tags is not None:
        return matches_etag(tags, file.etag)
    since = _parse_date(headers.get("if-modified-since"))
    return since is not None and int(file.modified) <= since


def matches_etag(tags: str, etag: str) -> bool:
    """Whether the value of `If-None-Match` lists an ETag, or is `*`."""
    return tags.strip() == "*" or etag in _ETAG.findall(tags)


def parse_range(headers: Mapping[str, str], file: File) -> tuple[int, int] | None:
    """Parse the requested range as first byte and stop; None for the whole file.

    Raises RangeNotSatisfiable. Invalid ranges are ignored, as the RFC demands.
    """
    match = _RANGE.fullmatch(headers.get("range", ""))
    if match is None or not _if_range_matches(headers.get("if-range"), file):
        return None
    first, last = match.groups()
    if not first and not last:
        return None
    if first and last and int(first) > int(last):
        return None
    start = int(first) if first else max(0, file.size - int(last))
    stop = min(int(last) + 1, file.size) if first and last else file.size
    if start >= stop:
        raise RangeNotSatisfiable(file.size)
    return start, stop


def _if_range_matches(condition: str | None, file: File) -> bool:
    """Whether `If-Range` allows a partial response: the client has the same version."""
    if condition is None or condition == file.etag:
        return True
    return _parse_date(condition) == int(file.modified)


def _parse_date(value: str | None) -> float | None:
    """Parse an HTTP date to seconds since 1970; None if invalid."""
    try:
        date = parsedate_to_datetime(value or "")
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, LookupError, TypeError):  # the parser raises any of these
        return None


DEFAULT_MEDIA_TYPE = "application/octet-stream"
OPEN_XML = "application/vnd.openxmlformats-officedocument"

# By suffix of the name.
MEDIA_TYPES: Mapping[str, str] = {
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".ndjson": "application/jsonl",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".svg": "image/svg+xml",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".xml": "application/xml",
    ".docx": f"{OPEN_XML}.wordprocessingml.document",
    ".pptx": f"{OPEN_XML}.presentationml.presentation",
    ".xlsx": f"{OPEN_XML}.spreadsheetml.sheet",
}

# Types that browsers display without running scripts. Others are downloads, and sandboxed.
INLINE_SUFFIXES = {
    *(".pdf", ".txt", ".log", ".md", ".markdown", ".csv", ".tsv", ".json", ".jsonl", ".ndjson"),
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"),
}


def guess_media_type(name: str) -> str:
    """Return the media type for a file name."""
    return MEDIA_TYPES.get(_suffix(name), DEFAULT_MEDIA_TYPE)


def add_charset(media_type: str, head: bytes) -> str:
    """Add `charset=utf-8` to the type of a text if `head`, the first bytes of the file, is UTF-8.

    Other encodings are left to byte order marks and the browser.
    """
    try:
        getincrementaldecoder("utf-8")().decode(head)  # the last character may be incomplete
    except UnicodeDecodeError:
        return media_type
    return f"{media_type}; charset=utf-8"


def disposition_headers(name: str) -> dict[str, str]:
    """Return the headers to display a file, or to download it and sandbox its content."""
    inline = _suffix(name) in INLINE_SUFFIXES
    headers = {"Content-Disposition": _disposition("inline" if inline else "attachment", name)}
    return headers if inline else {**headers, "Content-Security-Policy": "sandbox"}


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _disposition(kind: str, name: str) -> str:
    """Format a Content-Disposition (RFC 6266): with an ASCII name for old clients, and in UTF-8."""
    file_name = name.rpartition("/")[2]
    ascii_name = re.sub(r'[^\x20-\x7e]|["\\%]', "_", file_name)
    return f"{kind}; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(file_name, safe='')}"
