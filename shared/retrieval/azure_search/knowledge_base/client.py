"""Retrieves passages from a knowledge base, and maps its errors to ChatErrors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from azure.core.exceptions import HttpResponseError

from shared.azure import errors
from shared.domain.errors import Misconfigured
from shared.retrieval.azure_search import client
from shared.retrieval.azure_search.client import READ_SECONDS, QueryRejected, SearchClient

UNFIT = "do AZURE_SEARCH_KNOWLEDGE_EFFORT and AZURE_SEARCH_KNOWLEDGE_SOURCES fit the base?"
API_VERSION = "2026-10-01"


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """A knowledge base of a service, called by its REST API."""

    client: SearchClient
    endpoint: str
    name: str

    async def retrieve(
        self, body: Mapping[str, Any], seconds: float, user_token: str | None = None
    ) -> Mapping[str, Any]:
        """Return the response, also a partial one. Raises ChatErrors.

        With `user_token` the service returns what this user may see.
        """
        path = f"/knowledgebases('{quote(self.name)}')/retrieve?api-version={API_VERSION}"
        url = f"{self.endpoint.rstrip('/')}{path}"
        headers = client.make_headers("application/json", user_token)
        read_seconds = max(seconds, READ_SECONDS)
        with errors.map_errors("knowledge base", partial(map_status, self.name)):
            async with asyncio.timeout(seconds):
                response = await client.post(self.client, url, body, headers, read_seconds)
                with errors.map_malformed_response():
                    return dict(response.json())


def map_status(name: str, error: HttpResponseError) -> Exception:
    """Map an error response by its status."""
    match error.status_code:
        case 402:
            hint = "the service's free allowance is used up: set its knowledgeRetrieval to standard"
        case 404:
            hint = f"there is no knowledge base {name} (AZURE_SEARCH_KNOWLEDGE_BASE)"
        case 400:
            code = client.error_code(error)
            return QueryRejected(cause=f"knowledge base: status 400, code {code!r:.80}: {UNFIT}")
        case _:
            return client.map_status(error)
    return Misconfigured(cause=f"knowledge base: status {error.status_code}: {hint}")
