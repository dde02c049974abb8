"""Parses the Retry-After headers of Azure's services."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

MAX_WAIT_SECONDS = 2.0  # a longer wait is left to the caller
MAX_RETRY_AFTER = 86_400.0  # seconds; a larger value is taken for an error


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Parse `retry-after-ms`, `x-ms-retry-after-ms` or `Retry-After` (a number or a date).

    Returns seconds, or None without a valid value.
    """
    milliseconds = _parse_number(
        headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms")
    )
    if milliseconds is not None:
        return _check_range(milliseconds / 1000)
    value = headers.get("retry-after") or headers.get("Retry-After")
    number = _parse_number(value)
    return _check_range(number if number is not None else _seconds_until(value))


def _parse_number(value: str | None) -> float | None:
    try:
        return float(value or "")
    except ValueError:
        return None


def _seconds_until(date: str | None) -> float | None:
    try:
        parsed = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):  # OverflowError for a year with many digits
        return None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _check_range(seconds: float | None) -> float | None:
    if seconds is None or not isfinite(seconds) or not 0 <= seconds <= MAX_RETRY_AFTER:
        return None
    return seconds
