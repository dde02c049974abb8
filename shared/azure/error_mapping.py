"""Retries requests of the Azure SDKs once, and maps their errors to ChatErrors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import uniform
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.policies import AsyncRetryPolicy

from shared.azure.identity import NO_IDENTITY_MESSAGE
from shared.azure.retry import MAX_WAIT_SECONDS, describe_cause, is_dropped, retry_after_seconds
from shared.chat.errors import ChatError, DeadlineExceeded, Misconfigured, Unavailable

RETRY_STATUSES = (429, 500, 502, 503, 504)  # with a short Retry-After
RETRY_STATUSES_WITHOUT_WAIT = (502, 503)  # without Retry-After
BACKOFF_SECONDS = (0.1, 0.4)  # a random value between these, so that workers do not retry at once

StatusMapper = Callable[[HttpResponseError], Exception]


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
        status, headers = response.http_response.status_code, response.http_response.headers
        wait = retry_after_seconds(headers)
        if wait is None:
            retryable = status in RETRY_STATUSES_WITHOUT_WAIT
        else:
            retryable = status in RETRY_STATUSES and wait <= MAX_WAIT_SECONDS
        return retryable and settings["total"] > 0

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


@contextmanager
def map_errors(service: str, map_status: StatusMapper, timeout_message: str = "") -> Iterator[None]:
    """Map exceptions of the Azure SDKs to ChatErrors.

    `service` is its name in the log, `map_status` maps its error responses. `timeout_message`
    replaces the message of DeadlineExceeded.
    """
    try:
        yield
    except ChatError:
        raise
    except TimeoutError as error:
        raise DeadlineExceeded(timeout_message, cause=f"{service}: no answer in time") from error
    except ClientAuthenticationError as error:
        raise _map_authentication_error(error, map_status) from error
    except HttpResponseError as error:
        raise map_status(error) from error
    except (AzureError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The SDKs raise any of these for a malformed response with status 200.
        raise Unavailable(cause=f"{service}: {describe_cause(error)}") from error


def _map_authentication_error(
    error: ClientAuthenticationError, map_status: StatusMapper
) -> Exception:
    # A failed token request raises the same class, without a response.
    if error.response is None:
        return Misconfigured(NO_IDENTITY_MESSAGE, cause=f"identity: {type(error).__name__}")
    return map_status(error)
