"""The clients of Azure AI Search that fill an index. They try nothing twice: patience.py does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.search.documents.aio import SearchClient
from azure.search.documents.indexes.aio import SearchIndexClient, SearchIndexerClient

from shared.retrieval.azure_search.client import API_VERSION, CONNECT_SECONDS

READ_SECONDS = 60  # of silence


@dataclass(frozen=True, slots=True)
class SearchClients:
    """One service: the documents of one index, all indexes, and what fills them by itself."""

    documents: SearchClient
    indexes: SearchIndexClient
    indexers: SearchIndexerClient

    async def close(self) -> None:
        """Close the connections."""
        for client in (self.documents, self.indexes, self.indexers):
            await client.close()


def make_clients(
    endpoint: str, index: str, credential: AsyncTokenCredential, **more: Any
) -> SearchClients:
    """The clients for `index` at `endpoint`; `more` goes to each of the SDK's (`transport`)."""
    options: dict[str, Any] = {
        "api_version": API_VERSION,
        "connection_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        **more,
    }

    def once() -> dict[str, Any]:
        return options | {"retry_policy": AsyncRetryPolicy.no_retries()}

    return SearchClients(
        SearchClient(endpoint, index, credential, **once()),
        SearchIndexClient(endpoint, credential, **once()),
        SearchIndexerClient(endpoint, credential, **once()),
    )
