"""Retries requests to Azure, maps errors of its SDKs to ChatErrors, describes them for the log.

The chat retries once and waits `MAX_WAIT_SECONDS` at most. Search and storage do so by the policies
here. `memory/cosmos/client.py` and `models/openai/client.py` have rules of their own for their
SDKs. Ingestion waits for minutes: `ingest/targets/azure_search/`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from random import uniform
from typing import Any

import aiohttp
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.policies import AsyncRetryPolicy

from shared.domain.errors import DeadlineExceeded, Misconfigured, Unavailable

MAX_WAIT_SECONDS = 2.0  # a longer wait is left to the caller
MAX_RETRY_AFTER = 86_400.0  # seconds; a larger value is taken for an error
RETRY_STATUSES = (429, 500, 502, 503, 504)  # with a short Retry-After
RETRY_STATUSES_WITHOUT_WAIT = (502, 503)  # without Retry-After
BACKOFF_SECONDS = (0.1, 0.4)  # a random value between these, so that workers do not retry at once
DROPPED_CONNECTION_ERRORS = (aiohttp.ServerDisconnectedError, ConnectionResetError, BrokenPipeError)
NO_IDENTITY_MESSAGE = (
    "The app has no identity that Azure accepts. On a laptop, run `azd auth login` or `az login`."
)


class MalformedResponse(AzureError):
    """A response with status 200 that the SDK, or the app, cannot read."""


StatusMapper = Callable[[HttpResponseError], Exception]


def is_untrusted(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is a certificate that Python does not trust."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def map_errors(service: str, map_status: StatusMapper, timeout_message: str = "") -> Iterator[None]:
    """Map exceptions of the Azure SDKs to ChatErrors.

    `service` is its name in the log, `map_status` maps its error responses. `timeout_message`
    replaces the message of DeadlineExceeded.
    """
    try:
        yield
    except TimeoutError as error:
        raise DeadlineExceeded(timeout_message, cause=f"{service}: no answer in time") from error
    except ClientAuthenticationError as error:
        raise _map_authentication_error(error, map_status) from error
    except HttpResponseError as error:
        raise map_status(error) from error
    except AzureError as error:
        raise Unavailable(cause=f"{service}: {describe_cause(error)}") from error


@contextmanager
def map_malformed_response() -> Iterator[None]:
    """Map what the SDKs raise for a malformed response with status 200 to MalformedResponse.

    For a call of an SDK and its response alone: from other code these exceptions are bugs.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise MalformedResponse(type(error).__name__, error=error) from error


def _map_authentication_error(
    error: ClientAuthenticationError, map_status: StatusMapper
) -> Exception:
    # A failed token request raises the same class, without a response.
    if error.response is None:
        return Misconfigured(NO_IDENTITY_MESSAGE, cause=f"identity: {type(error).__name__}")
    return map_status(error)


def describe_cause(error: BaseException) -> str:
    """Describe a failure for the log: a connection error with its address, else the error's class.

    The address is scheme, host and port: path and query may hold a key or a question.
    """
    for each in iterate_causes(error):
        if isinstance(each, aiohttp.ClientConnectorError):
            return f"{_describe_kind(each)}: {_format_address(each)}"
        if isinstance(each, aiohttp.ConnectionTimeoutError):
            return "no connection in time"
    return "connection closed before an answer" if is_dropped(error) else type(error).__name__


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


class ShortRetryPolicy(AsyncRetryPolicy):  # type: ignore[type-arg]
    """Retries once, after a short Retry-After or else after a random backoff.

    The SDK's own policy has no limit for Retry-After, and no retry of a POST after a dropped
    connection.
    """

    def __init__(self) -> None:
        super().__init__(retry_total=1, retry_connect=1, retry_read=0)

    def configure_retries(self, options: dict[str, Any]) -> dict[str, Any]:
        """Configure a request. Only POST is retried: aiohttp retries the other methods itself."""
        return super().configure_retries(options) | {"methods": ("POST",)}

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """Whether to retry after a response."""
        status = response.http_response.status_code
        if status not in RETRY_STATUSES or settings["total"] <= 0:
            return False
        wait = self.get_retry_after(response)
        if wait is None:
            return status in RETRY_STATUSES_WITHOUT_WAIT
        return wait <= MAX_WAIT_SECONDS

    def increment(
        self, settings: dict[str, Any], response: Any = None, error: Exception | None = None
    ) -> bool:
        """Count an attempt; whether to retry. The only error to retry is a dropped connection."""
        if error is not None and not is_dropped(error):
            return False
        return super().increment(settings, response, error)

    def get_retry_after(self, response: Any) -> float | None:
        """Return the Retry-After of a response, in seconds."""
        return retry_after_seconds(response.http_response.headers)

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Return the wait without Retry-After, in seconds."""
        return uniform(*BACKOFF_SECONDS)


class StorageRetryPolicy(AsyncRetryPolicy):  # type: ignore[type-arg]
    """The SDKs' own policy, with the bookkeeping that the storage SDK expects of it."""

    async def send(self, request: Any) -> Any:
        """Send a request with retries. The SDK reads the response's `location_mode`."""
        options = request.context.options
        mode = options.pop("location_mode", None)
        for name in ("hosts", "retry_to_secondary"):
            options.pop(name, None)
        response = await super().send(request)
        response.http_response.location_mode = mode
        return response


class ShortStorageRetryPolicy(StorageRetryPolicy, ShortRetryPolicy):
    """Retries once, like requests to the search."""


def error_retry_after(error: Exception) -> float | None:
    """Return the wait that an error response requests, in seconds; None without one."""
    response = getattr(error, "response", None)
    return retry_after_seconds(getattr(response, "headers", None) or {})


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


def is_dropped(error: BaseException) -> bool:
    """Whether the service closed or reset the connection before it responded, worth a retry.

    A refused connection is not: a retry would be refused, too.
    """
    return any(isinstance(each, DROPPED_CONNECTION_ERRORS) for each in iterate_causes(error))


def iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, from the last to the first."""
    while error is not None:
        yield error
        error = error.__cause__
