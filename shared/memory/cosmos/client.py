"""The client of Azure Cosmos DB: its retries, and the mapping of its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import (
    AzureError,
    DecodeError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.cosmos.aio import CosmosClient

from shared.azure import errors
from shared.azure.errors import MAX_WAIT_SECONDS, retry_after_seconds
from shared.domain.errors import Misconfigured, TooLarge, TooManyRequests, Unavailable

CONNECT_SECONDS = 5
TIMEOUT_MESSAGE = "The memory took too long to answer. Ask again."
READ_SESSION_NOT_AVAILABLE = 1002  # the substatus of a 404 that is transient
TRANSIENT_STATUSES = (408, 410, 449, 500, 503)
RETRY_DELAY = 0.1  # seconds, before a retry after one of these

T = TypeVar("T")


def make_client(endpoint: str, credential: AsyncTokenCredential) -> CosmosClient:
    """Return a client of an account; each worker needs one. It sends nothing yet."""
    return CosmosClient(
        endpoint,
        credential,
        # `call_with_retry` retries instead: the SDK has no limit for a wait.
        retry_throttle_total=-1,  # its 0 is "unset"
        retry_connect=0,
        retry_read=0,
        enable_endpoint_discovery=False,  # the account has one region
        connection_timeout=CONNECT_SECONDS,
    )


def map_errors() -> AbstractContextManager[None]:
    """Map exceptions of the SDK to ChatErrors."""
    return errors.map_errors("cosmos", map_status, TIMEOUT_MESSAGE)


def map_status(error: HttpResponseError) -> Exception:
    """Map an error response by its status. Its text is not logged: it may quote a conversation."""
    cause = f"cosmos: status {error.status_code}, substatus {getattr(error, 'sub_status', None)}"
    match error.status_code:
        case 429:
            return TooManyRequests(retry_after=_retry_after(error), cause=cause)
        case 401 | 403:
            hint = "does the app's identity have the role Cosmos DB Built-in Data Contributor?"
            return Misconfigured(cause=f"{cause}: {hint}")
        case 404 if getattr(error, "sub_status", None) != READ_SESSION_NOT_AVAILABLE:
            return Misconfigured(cause=f"{cause}: are the database and its container there?")
        case 400:
            hint = "does the container have its partition key and its composite index?"
            return Misconfigured(cause=f"{cause}: {hint}")
        case 413:
            return TooLarge()
        case _:
            return Unavailable(retry_after=_retry_after(error), cause=cause)


async def call_with_retry(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call of the SDK, and repeat it once after a transient error."""
    try:
        with errors.map_malformed_response():
            return await call()
    except AzureError as error:
        wait = _retry_delay(error)
        if wait is None:
            raise
    await asyncio.sleep(wait)
    with errors.map_malformed_response():
        return await call()


def _retry_delay(error: AzureError) -> float | None:
    """Return the seconds before a retry; None if there is to be none."""
    if isinstance(error, ServiceRequestError | ServiceResponseError | DecodeError):
        return 0.0
    status, wait = getattr(error, "status_code", None), _retry_after(error)
    if wait is not None and wait > MAX_WAIT_SECONDS:
        return None
    if status == 429:
        return wait
    return wait or RETRY_DELAY if status in TRANSIENT_STATUSES else None


def _retry_after(error: AzureError) -> float | None:
    headers: Mapping[str, str] = getattr(error, "headers", None) or {}
    wait = headers.get("x-ms-retry-after-ms")
    return retry_after_seconds({"retry-after-ms": str(wait)}) if wait is not None else None
