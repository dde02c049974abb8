"""Which bytes of a file does a request want? None that it has, one part, or the whole (RFC 9110).

Who asks for several parts gets the whole: a server may, and no viewer of documents needs them.
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
    """Whether the client has these very bytes. `If-None-Match` wins over the date."""
    tags = headers.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or file.etag in _ETAG.findall(tags)
    since = _parse_date(headers.get("if-modified-since"))
    return since is not None and int(file.modified) <= since


def parse_range(headers: Mapping[str, str], file: File) -> tuple[int, int] | None:
    """The part that is asked for, from its first byte up to its stop; None is the whole.

    Raises RangeNotSatisfiable. "A recipient MUST ignore" a Range that it cannot read.
    """
    found = _RANGE.fullmatch(headers.get("range", ""))
    if (
        found is None
        or not any(found.groups())
        or not _if_range_matches(headers.get("if-range"), file)
    ):
        return None
    first, last = found[1], found[2]
    if first and last and int(first) > int(last):
        return None
    start = int(first) if first else max(0, file.size - int(last))
    stop = min(int(last) + 1, file.size) if first and last else file.size
    if start >= stop:
        raise RangeNotSatisfiable(file.size)
    return start, stop


def _if_range_matches(condition: str | None, file: File) -> bool:
    """Whether `If-Range` lets a part be sent: the client has the rest of these very bytes."""
    if condition is None or condition == file.etag:
        return True
    return _parse_date(condition) == int(file.modified)


def _parse_date(said: str | None) -> float | None:
    """A date of HTTP in seconds since 1970; None where it is none."""
    try:
        moment = parsedate_to_datetime(said or "")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, LookupError, TypeError):  # as its parser happens to fail
        return None
