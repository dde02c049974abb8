"""Which failures of a service are worth a retry, when, and how they are described in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

import aiohttp

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


DROPPED_CONNECTION_ERRORS = (aiohttp.ServerDisconnectedError, ConnectionResetError, BrokenPipeError)


def is_dropped(error: BaseException) -> bool:
    """Whether the service closed or reset the connection before it responded, worth a retry.

    A refused connection is not: a retry would be refused, too.
    """
    return any(isinstance(each, DROPPED_CONNECTION_ERRORS) for each in _iterate_causes(error))


def describe_cause(error: BaseException) -> str:
    """Describe a failure for the log: a connection error with its address, else the error's class.

    The address is scheme, host and port: path and query may hold a key or a question.
    """
    for each in _iterate_causes(error):
        if isinstance(each, aiohttp.ClientConnectorError):
            return f"{_describe_kind(each)}: {_format_address(each)}"
        if isinstance(each, aiohttp.ConnectionTimeoutError):
            return "no connection in time"
    return "connection closed before an answer" if is_dropped(error) else type(error).__name__


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _describe_kind(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "host not found"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS failed"
    refused = isinstance(error.os_error, ConnectionRefusedError)
    return "connection refused" if refused else "no connection"


def _format_address(error: aiohttp.ClientConnectorError) -> str:
    host = f"[{error.host}]" if ":" in error.host else error.host
    return f"{'https' if error.args[0].is_ssl else 'http'}://{host}:{error.port}"
