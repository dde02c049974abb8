"""Classifies and describes failed connections to a service."""

from __future__ import annotations

from collections.abc import Iterator

import aiohttp

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
