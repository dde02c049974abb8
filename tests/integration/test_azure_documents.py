"""A search within documents of an index of Azure AI Search: requests, permissions, the ranker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from shared.domain.errors import BadRequest, Misconfigured
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from shared.retrieval.base import DocumentRetriever, SearchResult
from tests.support.azure_search import run_with_index
from tests.support.fake_search import document
from tests.support.search_app import PUBLIC, SELECT

ANNA = User("oid-a")
OWN = Overrides(top=50, use_oid_security_filter=True)
OWNED = "((not oids/any() and not groups/any()) or oids/any(o: o eq 'oid-a'))"
DOCS = [
    document("a", oids=["oid-a"]),
    document("b", oids=["oid-a"], category="plans"),
    document("it's", oids=["oid-a"]),
    document("foreign", oids=["oid-b"]),
    document("other", oids=["oid-a"]),
]


async def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[0.5] for _ in texts]


def search(
    *names: str, overrides: Overrides = OWN
) -> Callable[[AzureSearchRetriever], Awaitable[SearchResult]]:
    return lambda index: index.search_documents(ANNA, "deductible", names, overrides)


def ids(result: SearchResult) -> list[str]:
    return [source.id for source in result.sources]


def test_search_within_documents_is_this_request() -> None:
    result, (body,) = run_with_index(DOCS, search("a.md", "it's.md", "foreign.md"), embed=embed)
    names = "(sourcefile eq 'a.md' or sourcefile eq 'it''s.md' or sourcefile eq 'foreign.md')"

    assert body == {
        "search": "deductible",
        "filter": f"{OWNED} and {names}",
        "select": SELECT,
        "top": 50,
        "vectorQueries": [{"kind": "vector", "vector": [0.5], "k": 50, "fields": "embedding"}],
    }
    assert ids(result) == ["a", "it's"]
    assert result.props["retrieval_mode"] == "hybrid"


def test_retriever_searches_within_documents() -> None:
    async def is_document_retriever(index: AzureSearchRetriever) -> bool:
        return isinstance(index, DocumentRetriever)

    assert run_with_index(DOCS, is_document_retriever) == (True, [])


def test_no_document_is_no_request() -> None:
    result, bodies = run_with_index(DOCS, search(), embed=embed)

    assert (result.sources, result.notes, bodies) == ((), (), [])


def test_name_cannot_end_its_literal() -> None:
    result, _ = run_with_index(DOCS, search("' or sourcefile eq 'a.md"))

    assert ids(result) == []


def test_documents_of_others_are_not_found_without_the_filter_of_the_user() -> None:
    result, (body,) = run_with_index(DOCS, search("a.md", overrides=Overrides(top=50)))

    assert body["filter"] == f"{PUBLIC} and (sourcefile eq 'a.md')"
    assert ids(result) == []


def test_categories_and_the_filter_of_a_request_apply() -> None:
    category = OWN.model_copy(update={"include_category": "plans"})
    rejected = OWN.model_copy(update={"filter": "nonsense"})
    result, _ = run_with_index(DOCS, search("a.md", "b.md", overrides=category))

    assert ids(result) == ["b"]
    with pytest.raises(BadRequest) as failure:
        run_with_index(DOCS, search("a.md", overrides=rejected))
    assert failure.value.field == "filter"


def test_index_of_the_app_that_cannot_filter_by_names_is_misconfigured() -> None:
    with pytest.raises(Misconfigured):
        run_with_index(DOCS, search("a.md"), {"unfilterable": ["sourcefile"]})


@pytest.mark.parametrize("ranker", [True, False])
def test_ranker_orders_the_passages_if_there_is_one(ranker: bool) -> None:
    overrides = OWN.model_copy(update={"semantic_ranker": True})
    options: dict[str, Any] = {"semantic_configuration": "ranking"}
    work = search("a.md", "b.md", overrides=overrides)
    result, bodies = run_with_index(DOCS, work, {"ranker": ranker}, **options)

    assert ids(result) == ["a", "b"]
    assert [source.reranker_score for source in result.sources] == [2.5 if ranker else None] * 2
    assert [body.get("queryType") for body in bodies] == ["semantic", *([] if ranker else [None])]
    assert len({body["filter"] for body in bodies}) == 1
