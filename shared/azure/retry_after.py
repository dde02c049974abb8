"""How long does a service ask us to wait? Its Retry-After, in whichever of its forms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

MAX_WAIT_SECONDS = 2.0  # seconds that are waited for here, once; a longer wait is the caller's
MAX_RETRY_AFTER = 86_400.0  # seconds; who asks for more has made a mistake


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Seconds, from `retry-after-ms`, `x-ms-retry-after-ms` or `Retry-After` (a number or a date);
    None where unread."""
    milliseconds = _parse_number(
        headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms")
    )
    if milliseconds is not None:
        return _check_range(milliseconds / 1000)
    said = headers.get("retry-after") or headers.get("Retry-After")
    number = _parse_number(said)
    return _check_range(number if number is not None else _seconds_until(said))


def _parse_number(said: str | None) -> float | None:
    try:
        return float(said or "")
    except ValueError:
        return None


def _seconds_until(said: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(said or "")
    except (ValueError, OverflowError):  # the second for a year of many digits
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _check_range(seconds: float | None) -> float | None:
    if seconds is None or not isfinite(seconds) or not 0 <= seconds <= MAX_RETRY_AFTER:
        return None
    return seconds
