"""What the clients of Azure's services share: what is tried again, and what their failures mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.policies import AsyncRetryPolicy

from shared import waits
from shared.errors import ChatError, DeadlineExceeded, Misconfigured, Unavailable
from shared.identity import NO_IDENTITY

RETRIED = (429, 500, 502, 503, 504)

Refusal = Callable[[HttpResponseError], Exception]


class ShortWaits(AsyncRetryPolicy):  # type: ignore[type-arg]
    """One retry, and only where the service asks for a short wait: its own knows no limit."""

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """Whether a response is worth another try."""
        answer = response.http_response
        wait = waits.asked(answer.headers)
        worth = answer.status_code in RETRIED and wait is not None and wait <= waits.OURS
        return worth and settings["total"] > 0


@contextmanager
def translated(service: str, refusal: Refusal, late: str = "") -> Iterator[None]:
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
        raise _denied(error, refusal) from error
    except HttpResponseError as error:
        raise refusal(error) from error
    except (AzureError, AttributeError, LookupError, TypeError, ValueError) as error:
        # a 200 that is no answer comes out of the SDKs as any of these
        raise Unavailable(cause=f"{service}: {type(error).__name__}") from error


def _denied(error: ClientAuthenticationError, refusal: Refusal) -> Exception:
    # An identity that gives no token raises the same class, without a response.
    if error.response is None:
        return Misconfigured(NO_IDENTITY, cause=f"identity: {type(error).__name__}")
    return refusal(error)
