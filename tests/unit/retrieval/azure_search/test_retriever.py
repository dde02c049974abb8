"""The retriever of Azure AI Search: a missing semantic ranker, and queries that are rejected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from shared.domain.errors import BadRequest, ChatError
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.client import QueryRejected, RankerUnavailable, SearchIndex
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.azure_search.retriever import RANKER_PAUSE_SECONDS, AzureSearchRetriever


@dataclass
class RankerlessIndex:
    """An index whose service has no ranker until `has_ranker`."""

    has_ranker: bool = False
    name: str = "docs"
    rankings: list[bool] = field(default_factory=list)

    async def search(self, query: Mapping[str, Any], _seconds: float) -> list[Mapping[str, Any]]:
        ranked = query.get("queryType") == "semantic"
        self.rankings.append(ranked)
        await asyncio.sleep(0)  # other searches begin before this one is answered
        if ranked and not self.has_ranker:
            raise RankerUnavailable
        return []


def test_ranker_that_is_missing_is_logged_once_and_used_again_after_its_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    clock, index = [100.0], RankerlessIndex()
    retriever = AzureSearchRetriever(
        cast(SearchIndex, index),
        IndexFields(),
        seconds=10,
        semantic_configuration="ranking",
        now=lambda: clock[0],
    )

    def search(times: int = 1) -> None:
        async def run() -> None:
            overrides = Overrides(semantic_ranker=True)
            searches = (retriever.search(User(), "x", overrides) for _ in range(times))
            await asyncio.gather(*searches)

        asyncio.run(run())

    search(times=2)
    clock[0] += RANKER_PAUSE_SECONDS - 1
    search()
    has_ranker_in_pause = retriever.statistics().has_ranker
    index.has_ranker = True
    clock[0] += 2
    search()

    assert index.rankings == [True, True, False, False, False, True]
    assert not has_ranker_in_pause
    assert retriever.statistics().has_ranker
    assert [record.getMessage() for record in caplog.records] == [
        "search: the service has no semantic ranker (AZURE_SEARCH_SEMANTIC_RANKER), or its free "
        "questions of this month are used up; searches go on without it for an hour"
    ]


@dataclass
class RejectingIndex:
    """An index that rejects the queries whose filter contains a word."""

    word: str
    name: str = "docs"

    async def search(self, query: Mapping[str, Any], _seconds: float) -> list[Mapping[str, Any]]:
        if self.word in query.get("filter", ""):
            raise QueryRejected(cause="status 400")
        return []


@pytest.mark.parametrize(("word", "error"), [("category", BadRequest), ("oids", QueryRejected)])
def test_client_filter_is_at_fault_only_if_the_query_passes_without_it(
    word: str, error: type[ChatError]
) -> None:
    retriever = AzureSearchRetriever(
        cast(SearchIndex, RejectingIndex(word)), IndexFields(), seconds=10
    )
    overrides = Overrides(use_oid_security_filter=True)
    overrides = overrides.model_copy(update={"filter": "category eq 'a'"})
    user = User(oid="anna")

    with pytest.raises(ChatError) as failure:
        asyncio.run(retriever.search(user, "x", overrides))

    assert failure.type is error
    assert failure.value.field == ("filter" if error is BadRequest else None)
