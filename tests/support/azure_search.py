"""AzureSearchRetriever over a fake Azure AI Search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.retrieval.azure_search.client import make_index
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from tests.support.fake_search import FakeSearch
from tests.support.search_writer import FakeCredential, run_transport, tls_contexts
from tests.support.upstream import run_upstream


def run_with_index(
    docs: Sequence[Mapping[str, Any]],
    work: Callable[[AzureSearchRetriever], Any],
    service: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """The result of `work` with an index of these documents, and the bodies of the requests.

    `service` are attributes of the fake, `options` those of the retriever.
    """

    async def run() -> Any:
        async with run_transport() as transport:
            index = make_index(search.url, "docs", FakeCredential(), transport=transport)
            return await work(AzureSearchRetriever(index, IndexFields(), 2, **options))

    with run_upstream(FakeSearch(docs=docs, **(service or {})), tls_contexts()[0]) as search:
        result = asyncio.run(run())
    return result, [request.body for request in search.requests]
