"""What the clients of Azure's services share: what is tried again, and what their failures mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import uniform
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.policies import AsyncRetryPolicy

from shared.azure import retry_after
from shared.azure.connection_errors import describe_cause, is_dropped
from shared.azure.identity import NO_IDENTITY_MESSAGE
from shared.chat.errors import ChatError, DeadlineExceeded, Misconfigured, Unavailable

RETRY_STATUSES = (429, 500, 502, 503, 504)  # where the service asks for a short wait
RETRY_STATUSES_WITHOUT_WAIT = (502, 503)  # where it asks for none
BACKOFF_SECONDS = (0.1, 0.4)  # seconds, at random between these: not all workers ask again at once

StatusMapper = Callable[[HttpResponseError], Exception]


class ShortRetryPolicy(AsyncRetryPolicy):  # type: ignore[type-arg]
    """One retry: after the short wait that the service asks for, or else after a pause of ours.

    The SDK's own policy knows no limit for a wait, and repeats no POST after a dropped connection.
    """

    def __init__(self) -> None:
        super().__init__(retry_total=1, retry_connect=1, retry_read=0)

    def configure_retries(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings of one request. Only a POST: aiohttp itself repeats the other methods."""
        return super().configure_retries(options) | {"methods": ("POST",)}

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """Whether a response is worth another try."""
        answer = response.http_response
        wait = retry_after.retry_after_seconds(answer.headers)
        if wait is None:
            worth = answer.status_code in RETRY_STATUSES_WITHOUT_WAIT
        else:
            worth = answer.status_code in RETRY_STATUSES and wait <= retry_after.MAX_WAIT_SECONDS
        return worth and settings["total"] > 0

    def increment(
        self, settings: dict[str, Any], response: Any = None, error: Exception | None = None
    ) -> bool:
        """Count a try; whether there is another. Of errors only a dropped connection gets one."""
        if error is not None and not is_dropped(error):
            return False
        return super().increment(settings, response, error)

    def get_retry_after(self, response: Any) -> float | None:
        """The wait that `is_retry` judged, in seconds."""
        return retry_after.retry_after_seconds(response.http_response.headers)

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Seconds to wait where the service asks for no wait."""
        return uniform(*BACKOFF_SECONDS)


@contextmanager
def map_errors(service: str, refusal: StatusMapper, late: str = "") -> Iterator[None]:
    """The one place where the exceptions of the SDKs become ours.

    `service` is what the log calls it; `refusal` says what its refusals mean, and `late` is the
    sentence for no answer in time, where that of a chat does not fit.
    """
    try:
        yield
    except ChatError:
        raise
    except TimeoutError as error:
        raise DeadlineExceeded(late, cause=f"{service}: no answer in time") from error
    except ClientAuthenticationError as error:
        raise _map_authentication_error(error, refusal) from error
    except HttpResponseError as error:
        raise refusal(error) from error
    except (AzureError, AttributeError, LookupError, TypeError, ValueError) as error:
        # a 200 that is no answer comes out of the SDKs as any of these
        raise Unavailable(cause=f"{service}: {describe_cause(error)}") from error


def _map_authentication_error(error: ClientAuthenticationError, refusal: StatusMapper) -> Exception:
    # An identity that gives no token raises the same class, without a response.
    if error.response is None:
        return Misconfigured(NO_IDENTITY_MESSAGE, cause=f"identity: {type(error).__name__}")
    return refusal(error)
