"""The clients of Azure AI Search for ingestion. They do not retry: `retry.RetryPolicy` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.search.documents.aio import SearchClient
from azure.search.documents.indexes.aio import SearchIndexClient, SearchIndexerClient

from shared.retrieval.azure_search.client import API_VERSION, CONNECT_SECONDS

READ_SECONDS = 60  # without data


@dataclass(frozen=True, slots=True)
class SearchClients:
    """The clients of one service: the documents of one index, the indexes, the indexers."""

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
    """Build the clients for `index` at `endpoint`; `more` are options of the SDK (`transport`)."""
    options: dict[str, Any] = {
        "api_version": API_VERSION,
        "connection_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        **more,
    }

    def client_options() -> dict[str, Any]:
        return options | {"retry_policy": AsyncRetryPolicy.no_retries()}

    return SearchClients(
        SearchClient(endpoint, index, credential, **client_options()),
        SearchIndexClient(endpoint, credential, **client_options()),
        SearchIndexerClient(endpoint, credential, **client_options()),
    )
