"""Evaluates conditional and range requests (RFC 9110).

A request for several ranges gets the whole file, as the RFC allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from shared.chat.errors import RangeNotSatisfiable
from shared.files.base import File

_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.IGNORECASE)
_ETAG = re.compile(r'"[^"]*"')


def is_not_modified(headers: Mapping[str, str], file: File) -> bool:
    """Whether the client has the current content. `If-None-Match` precedes the date."""
    tags = headers.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or file.etag in _ETAG.findall(tags)
    since = _parse_date(headers.get("if-modified-since"))
    return since is not None and int(file.modified) <= since


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
