"""Searches an index of Azure AI Search and maps its errors to ChatErrors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote
from urllib.request import getproxies

from azure.core import AsyncPipelineClient
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import AsyncBearerTokenCredentialPolicy, UserAgentPolicy
from azure.core.rest import AsyncHttpResponse, HttpRequest
from pydantic_core import to_json

from shared.azure import errors
from shared.azure.errors import ShortRetryPolicy, error_retry_after
from shared.azure.identity import SEARCH_SCOPE
from shared.domain.errors import BadRequest, Misconfigured, TooManyRequests, Unavailable
from shared.domain.overrides import Overrides

API_VERSION = "2026-04-01"
PERMISSIONS_API_VERSION = "2026-10-01"  # the first with a user's token
T = TypeVar("T")
SearchClient = AsyncPipelineClient[HttpRequest, AsyncHttpResponse]

CONNECT_SECONDS, READ_SECONDS = 5, 30
RANKER_UNAVAILABLE_CODE = "SemanticQueriesNotAvailable"


class QueryRejected(Misconfigured):
    """The service rejects the query as invalid."""


class RankerUnavailable(Exception):
    """The service has no semantic ranker."""


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """An index of a service, called by its REST API through the pipeline of the SDKs.

    `SearchClient` would take more CPU time for its classes than the request does, above all for
    the numbers of a vector.
    """

    client: SearchClient
    endpoint: str
    name: str
    user_token: str | None = field(default=None, repr=False)  # if the service checks permissions

    async def search(self, query: Mapping[str, Any], seconds: float) -> list[Mapping[str, Any]]:
        """Return the hits for a query. Raises ChatErrors, RankerUnavailable.

        A response with a part of the hits has the query for the next part.
        """
        hits: list[Mapping[str, Any]] = []
        next_query: Mapping[str, Any] | None = query
        with map_errors():
            async with asyncio.timeout(seconds):
                while next_query:
                    response = await self._post(next_query)
                    with errors.map_malformed_response():
                        page = response.json()
                        hits += map(dict, page["value"])
                        next_query = page.get("@search.nextPageParameters")
        return hits

    async def count(self, field: str, seconds: float) -> int:
        """Return the number of all passages, also those that no user may see. Raises ChatErrors.

        `field` is any field.
        """
        query = {"select": field, "count": True}
        return await self._summarize(query, lambda summary: int(summary["@odata.count"]), seconds)

    async def values(
        self, field: str, condition: str | None, limit: int, seconds: float
    ) -> tuple[str, ...]:
        """Return the first values of a facetable field among the passages that match a filter.

        They are sorted. Raises ChatErrors.
        """
        facet = f"{field},count:{limit},sort:value"
        query = {"select": field, "facets": [facet]} | ({"filter": condition} if condition else {})

        def read(summary: Any) -> tuple[str, ...]:
            return tuple(str(bucket["value"]) for bucket in summary["@search.facets"][field])

        return await self._summarize(query, read, seconds)

    async def _summarize(
        self, query: Mapping[str, Any], read: Callable[[Any], T], seconds: float
    ) -> T:
        """Return what `read` finds in a response without hits. Raises ChatErrors."""
        with map_errors():
            async with asyncio.timeout(seconds):
                response = await self._post({"search": "*", "top": 0, **query})
                with errors.map_malformed_response():
                    return read(response.json())

    async def _post(self, body: Mapping[str, Any]) -> AsyncHttpResponse:
        path = f"/indexes('{quote(self.name)}')/docs/search.post.search"
        version = API_VERSION if self.user_token is None else PERMISSIONS_API_VERSION
        url = f"{self.endpoint.rstrip('/')}{path}?api-version={version}"
        headers = make_headers("application/json;odata.metadata=none", self.user_token)
        return await post(self.client, url, body, headers)


async def post(
    client: SearchClient,
    url: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    seconds: float = READ_SECONDS,
) -> AsyncHttpResponse:
    """Send JSON. Raises HttpResponseError for the status of an error.

    `seconds` is how long the service may send nothing.
    """
    request = HttpRequest("POST", url, headers={**headers}, content=to_json(body))
    response = await client.send_request(request, read_timeout=seconds)
    response.raise_for_status()
    return response


def make_headers(accept: str, user_token: str | None) -> dict[str, str]:
    """Return the headers of a request, in the name of a user if there is a token."""
    headers = {"Accept": accept, "Content-Type": "application/json"}
    if user_token is not None:
        headers["x-ms-query-source-authorization"] = user_token
    return headers


def make_index(
    endpoint: str, name: str, credential: AsyncTokenCredential, **options: Any
) -> SearchIndex:
    """Return an index; each worker needs one. `options` are those of a pipeline's client."""
    client = SearchClient(
        endpoint,
        policies=[
            UserAgentPolicy(),
            ShortRetryPolicy(),
            AsyncBearerTokenCredentialPolicy(credential, SEARCH_SCOPE),
        ],
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        # Else aiohttp looks for a proxy, and for ~/.netrc, at each request, in two threads.
        use_env_settings=bool(getproxies()),
        **options,
    )
    return SearchIndex(client, endpoint, name)


@asynccontextmanager
async def blame_filter(
    overrides: Overrides, search: Callable[[Overrides], Awaitable[object]]
) -> AsyncIterator[None]:
    """Raise BadRequest for a rejected query if the filter of the client is at fault.

    It is if `search` passes without it.
    """
    try:
        yield
    except QueryRejected as error:
        if overrides.filter is None:
            raise
        await search(overrides.model_copy(update={"filter": None, "top": 1}))
        message = "the search service rejects it"
        raise BadRequest(message, field="filter", cause=error.cause) from None


def error_code(error: HttpResponseError) -> str | None:
    """Return the code of an error response; None if it has none."""
    return error.error.code if error.error else None


def map_status(error: HttpResponseError) -> Exception:
    """Map an error response by its status. Only the code is logged: the text may hold the query."""
    details = [detail.code for detail in (error.error.details or ())] if error.error else []
    code = error_code(error)
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


# Maps exceptions of the SDK to ChatErrors and RankerUnavailable.
map_errors = partial(errors.map_errors, "search", map_status)
