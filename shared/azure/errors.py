"""Maps errors of the Azure SDKs to ChatErrors, and describes them for the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from shared.azure.retry import is_dropped, iterate_causes
from shared.domain.errors import DeadlineExceeded, Misconfigured, Unavailable

NO_IDENTITY_MESSAGE = (
    "The app has no identity that Azure accepts. On a laptop, run `azd auth login` or `az login`."
)


class MalformedResponse(AzureError):
    """A response with status 200 that the SDK, or the app, cannot read."""


StatusMapper = Callable[[HttpResponseError], Exception]


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
