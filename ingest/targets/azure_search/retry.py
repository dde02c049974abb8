"""Retries calls to Azure AI Search, and maps their failures to errors for the operator.

Ingestion may wait for minutes, where a chat may wait for seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from ingest.targets.index_writer import DocumentRejected, IndexUnavailable, RequestRejected
from shared.azure.errors import NO_IDENTITY_MESSAGE, error_retry_after, is_untrusted

P = ParamSpec("P")
T = TypeVar("T")

ROLE_RETRY_SECONDS = 15  # between attempts, while a role assignment takes effect
MAX_BACKOFF_SECONDS = 60  # the longest wait without Retry-After
TRANSIENT_STATUSES = (408, 409, 429, 500, 502, 503, 504)
# The SDK raises these on a malformed response with status 200.
MALFORMED_RESPONSE_ERRORS = (AttributeError, LookupError, TypeError, ValueError)

ACCESS_DENIED = (
    "Azure AI Search refuses whoever runs this ({status}). On the service they need the roles "
    "Search Index Data Contributor (documents) and Search Service Contributor (the index), and "
    "it must allow access by roles; roles that were given just now take some minutes to act. "
    "A service that is full refuses so too."
)
NOT_FOUND = "Azure AI Search has no such index: is AZURE_SEARCH_ENDPOINT right?"
BUSY = "Azure AI Search is too busy ({status}), also after waiting. Run it again later."
NO_RESPONSE = (
    "Azure AI Search did not answer ({what}), also after trying again. Run it again later."
)
UNTRUSTED = "Python does not trust the certificate of Azure AI Search."
REQUEST_REJECTED = "Azure AI Search did not accept the request ({status}, code {code!r:.80})."


class PartialFailure(AzureError):
    """Some documents of a batch failed for a transient reason."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries calls to Azure AI Search."""

    max_attempts: int = 8  # of a call
    max_wait: float = 300  # seconds of a Retry-After that is obeyed
    timeout: float = 180  # seconds of one attempt, the upload of a batch included
    # Seconds in which refusals (401, 403) are retried: new role assignments take minutes
    role_wait: float = 0
    notify: Callable[[str], None] = lambda _: None  # gets a message before each wait
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def call_with_retry(
        self, call: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs
    ) -> T:
        """Call until it succeeds, or fails for good. Maps SDK errors to DocumentRejected."""
        attempt = 0
        while True:
            attempt += 1
            try:
                async with asyncio.timeout(self.timeout):
                    return await call(*args, **options)
            except (AzureError, TimeoutError) as failure:
                pause = self._pause(failure, attempt)
                if pause is None:
                    raise map_failure(failure) from failure
                self.notify(
                    f"Azure AI Search: {_describe(failure)}; trying again in {pause:.0f} s."
                )
                await self.sleep(pause)
            except MALFORMED_RESPONSE_ERRORS as failure:
                raise map_failure(failure) from failure

    def _pause(self, failure: Exception, attempt: int) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        status = get_status(failure)
        if status in (401, 403):
            return ROLE_RETRY_SECONDS if attempt * ROLE_RETRY_SECONDS <= self.role_wait else None
        is_transient = status is None or status in TRANSIENT_STATUSES
        is_refused = isinstance(failure, ClientAuthenticationError) or is_untrusted(failure)
        if is_refused or not is_transient:
            return None
        if attempt >= self.max_attempts:
            return None
        requested = error_retry_after(failure)
        if requested is not None:
            return requested if requested <= self.max_wait else None
        return min(2.0 ** (attempt - 1), MAX_BACKOFF_SECONDS) * random.uniform(0.7, 1.0)


def get_status(failure: Exception) -> int | None:
    """The status of an error response; None for connection errors and truncated responses."""
    status = failure.status_code if isinstance(failure, HttpResponseError) else None
    return status if status is not None and status >= 400 else None


def _describe(failure: Exception) -> str:
    status = get_status(failure)
    return f"status {status}" if status else type(failure).__name__


def map_failure(failure: Exception) -> DocumentRejected:
    """Map an SDK error to a message for the operator, without the service's own message."""
    status = get_status(failure)
    if isinstance(failure, ClientAuthenticationError) and status is None:
        return IndexUnavailable(NO_IDENTITY_MESSAGE)
    if is_untrusted(failure):
        return IndexUnavailable(UNTRUSTED)
    match status:
        case None:
            return IndexUnavailable(NO_RESPONSE.format(what=_describe(failure)))
        case 401 | 403:
            return IndexUnavailable(ACCESS_DENIED.format(status=status))
        case 404:
            return IndexUnavailable(NOT_FOUND)
        case _ if status in TRANSIENT_STATUSES:
            return IndexUnavailable(BUSY.format(status=status))
        case 413:
            return DocumentRejected(
                "It is too large for Azure AI Search: one passage exceeds a request."
            )
        case _:
            code = getattr(getattr(failure, "error", None), "code", None)
            return RequestRejected(REQUEST_REJECTED.format(status=status, code=code))
