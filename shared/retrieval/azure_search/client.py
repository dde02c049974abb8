"""Makes the client of Azure AI Search and maps its errors to ChatErrors."""

from __future__ import annotations

from contextlib import AbstractContextManager

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import HttpResponseError
from azure.search.documents.aio import SearchClient

from shared.azure import errors
from shared.azure.retry import ShortRetryPolicy, error_retry_after
from shared.chat.errors import Misconfigured, TooManyRequests, Unavailable

API_VERSION = "2026-04-01"
CONNECT_SECONDS, READ_SECONDS = 5, 30
RANKER_UNAVAILABLE_CODE = "SemanticQueriesNotAvailable"


class QueryRejected(Misconfigured):
    """The service rejects the query as invalid."""


class RankerUnavailable(Exception):
    """The service has no semantic ranker."""


def make_client(endpoint: str, index: str, credential: AsyncTokenCredential) -> SearchClient:
    """Return a client of an index; each worker needs one."""
    return SearchClient(
        endpoint,
        index,
        credential,
        api_version=API_VERSION,
        retry_policy=ShortRetryPolicy(),
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )


def map_errors() -> AbstractContextManager[None]:
    """Map exceptions of the SDK to ChatErrors and RankerUnavailable."""
    return errors.map_errors("search", map_status)


def map_status(error: HttpResponseError) -> Exception:
    """Map an error response by its status. Only the code is logged: the text may hold the query."""
    details = [detail.code for detail in (error.error.details or ())] if error.error else []
    code = error.error.code if error.error else None
    if RANKER_UNAVAILABLE_CODE in (code, *details):
        return RankerUnavailable()
    cause = f"search: status {error.status_code}, code {code!r:.80}"
    match error.status_code:
        case 429:
            return TooManyRequests(retry_after=error_retry_after(error), cause=cause)
        case 401 | 403:
            hint = "does the app's identity have the role Search Index Data Reader?"
            return Misconfigured(cause=f"{cause}: {hint}")
        case 404:
            return Misconfigured(cause=f"{cause}: is AZURE_SEARCH_INDEX right?")
        case 400:
            return QueryRejected(cause=f"{cause}: do the index's fields fit?")
        case _:
            return Unavailable(retry_after=error_retry_after(error), cause=cause)
