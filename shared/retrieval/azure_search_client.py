"""The client of Azure AI Search: what is tried again, and what its failures mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.search.documents.aio import SearchClient

from shared import waits
from shared.errors import (
    ChatError,
    DeadlineExceeded,
    Misconfigured,
    TooManyRequests,
    Unavailable,
)
from shared.identity import NO_IDENTITY

API_VERSION = "2026-04-01"
CONNECT_SECONDS, READ_SECONDS = 5, 30
RETRIED = (429, 500, 502, 503, 504)
WITHOUT_RANKER = "SemanticQueriesNotAvailable"


class NoRanker(Exception):
    """The service has no semantic ranker."""


class ShortWaits(AsyncRetryPolicy):  # type: ignore[type-arg]
    """One retry, and only where the service asks for a short wait: its own knows no limit."""

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """Whether a response is worth another try."""
        answer = response.http_response
        wait = waits.asked(answer.headers)
        worth = answer.status_code in RETRIED and wait is not None and wait <= waits.OURS
        return worth and settings["total"] > 0


def make_client(endpoint: str, index: str, credential: AsyncTokenCredential) -> SearchClient:
    """The client of an index, made once a worker."""
    return SearchClient(
        endpoint,
        index,
        credential,
        api_version=API_VERSION,
        retry_policy=ShortWaits(retry_total=1, retry_connect=0, retry_read=0),
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )


@contextmanager
def translated() -> Iterator[None]:
    """The one place where the exceptions of the SDK become ours, and NoRanker."""
    try:
        yield
    except ChatError:
        raise
    except TimeoutError as error:
        raise DeadlineExceeded(cause="search: no answer in time") from error
    except ClientAuthenticationError as error:
        raise _denied(error) from error
    except HttpResponseError as error:
        raise refusal(error) from error
    except (AzureError, AttributeError, LookupError, TypeError, ValueError) as error:
        # a 200 that is no answer comes out of the SDK as any of these
        raise Unavailable(cause=f"search: {type(error).__name__}") from error


def _denied(error: ClientAuthenticationError) -> Exception:
    # An identity that gives no token raises the same class, without a response.
    if error.response is None:
        return Misconfigured(NO_IDENTITY, cause=f"identity: {type(error).__name__}")
    return refusal(error)


def refusal(error: HttpResponseError) -> Exception:
    """What a refusal means. The code alone is logged: its text may hold the question."""
    details = [detail.code for detail in (error.error.details or ())] if error.error else []
    code = error.error.code if error.error else None
    if WITHOUT_RANKER in (code, *details):
        return NoRanker()
    headers: Mapping[str, str] = getattr(error.response, "headers", {})
    cause = f"search: status {error.status_code}, code {code!r:.80}"
    match error.status_code:
        case 429:
            return TooManyRequests(retry_after=waits.asked(headers), cause=cause)
        case 401 | 403:
            hint = "does the app's identity have the role Search Index Data Reader?"
            return Misconfigured(cause=f"{cause}: {hint}")
        case 404:
            return Misconfigured(cause=f"{cause}: is AZURE_SEARCH_INDEX right?")
        case 400:
            return Misconfigured(cause=f"{cause}: do the index's fields fit?")
        case _:
            return Unavailable(retry_after=waits.asked(headers), cause=cause)
