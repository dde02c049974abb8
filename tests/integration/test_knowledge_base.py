"""The app over a knowledge base of Azure AI Search: requests, permissions, failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.settings import SettingsError, read_settings
from tests.support.calls import CHAT_KEY
from tests.support.fake_knowledge_base import DATA_FIELDS, FakeKnowledgeBase
from tests.support.fake_search import document
from tests.support.search_app import (
    DOCS,
    PUBLIC,
    USERS,
    app,
    app_over,
    ask,
    home,
    log_of,
    notes,
    visible_names,
)
from tests.support.servers import SIGN_IN
from tests.support.upstream import Exchange, Step, Upstream, error_response, json_response

__all__ = ["home"]  # fixtures

Parts = tuple[FakeKnowledgeBase, httpx.Client]
SETTINGS = {"AZURE_SEARCH_KNOWLEDGE_BASE": "kb", **SIGN_IN}
QUERY = "say x; deductible"
OPTIONS = {
    "knowledgeSourceName": "docs",
    "kind": "searchIndex",
    "includeReferences": True,
    "includeReferenceSourceData": True,
    "rerankerThreshold": 0,
    "filterAddOn": PUBLIC,
}


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[tuple[FakeKnowledgeBase, Upstream, httpx.Client]]:
    service = FakeKnowledgeBase(docs=DOCS)
    more = {
        "SEARCH_SECONDS": "1.5",
        "ALLOW_CLIENT_FILTERS": "true",
        "FORCE_SECURITY_FILTERS": "false",
    }
    with app_over(service, home, **SETTINGS, **more) as (model, client):
        yield service, model, client


@pytest.fixture
def base(running: tuple[FakeKnowledgeBase, Upstream, httpx.Client]) -> Parts:
    service, _, client = running
    service.requests.clear()
    service.plan.clear()
    service.failing.clear()
    service.reranks, service.sources = {}, {}
    service.has_room, service.data_fields = True, DATA_FIELDS
    return service, client


def hits(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["context"]["thoughts"][2]["description"]


def test_a_question_is_this_request(base: Parts) -> None:
    service, client = base
    response = ask(client)

    assert notes(response) == []
    (request,) = service.requests
    assert request.body == {
        "intents": [{"type": "semantic", "search": QUERY}],
        "includeActivity": True,
        "maxOutputSizeInTokens": 10_000,
        "maxOutputDocuments": 10,
        "knowledgeSourceParams": [OPTIONS],
    }
    assert request.headers["authorization"] == "Bearer token-of-az"


@pytest.mark.parametrize(
    ("overrides", "changes"),
    [
        ({"include_category": "a'b"}, {"filterAddOn": f"{PUBLIC} and category eq 'a''b'"}),
        ({"minimum_reranker_score": 2.1}, {"rerankerThreshold": 2.1}),
        ({"minimum_reranker_score": 9}, {"rerankerThreshold": 4}),
        ({"minimum_reranker_score": -1}, {"rerankerThreshold": 0}),
    ],
)
def test_an_override_changes_what_each_source_is_asked(
    base: Parts, overrides: dict[str, Any], changes: dict[str, Any]
) -> None:
    service, client = base
    response = ask(client, **overrides)

    assert notes(response) == []
    assert service.requests[0].body["knowledgeSourceParams"] == [OPTIONS | changes]


def test_top_is_how_many_passages_come_back(base: Parts) -> None:
    service, client = base
    response = ask(client, top=1)

    assert service.requests[0].body["maxOutputDocuments"] == 1
    assert len(hits(response)) == 1


FILTERED = [
    (user, oid, groups) for user in USERS for oid in (False, True) for groups in (False, True)
]


@pytest.mark.parametrize(("user", "oid", "groups"), [(None, False, False), *FILTERED])
def test_a_user_sees_public_passages_and_those_that_an_enabled_filter_matches(
    base: Parts, user: str | None, oid: bool, groups: bool
) -> None:
    filters = {"use_oid_security_filter": oid, "use_groups_security_filter": groups}
    found = {hit["id"] for hit in hits(ask(base[1], user, **filters, top=50))}

    assert found == {*visible_names(user, oid, groups), "plan", "other"}


def test_passages_are_the_best_first_with_their_scores(base: Parts) -> None:
    service, client = base
    service.reranks = {"plan": 3.5, "other": 0.2}
    found = hits(ask(client))

    assert [(hit["id"], hit["reranker_score"]) for hit in found] == [
        ("plan", 3.5),
        ("public", 1.5),
        ("other", 0.2),
    ]
    assert (found[0]["score"], found[0]["sourcepage"]) == (None, "plan.md")


def test_the_same_text_is_returned_once(base: Parts) -> None:
    service, client = base
    service.sources = {"docs": [document(name, content="The same.") for name in ("a", "b")]}

    assert len(hits(ask(client))) == 1


def test_thought_says_what_was_searched_for(base: Parts) -> None:
    props = ask(base[1]).json()["context"]["thoughts"][1]["props"]
    query = {"source": "docs", "search": QUERY, "count": 3, "milliseconds": 310}

    assert props["queries"] == [query]
    assert (props["tokens"], props["retrieval_mode"]) == ({"reasoning": 4096}, "knowledge base")


def test_passages_of_a_source_that_no_filter_restricts_are_dropped(base: Parts) -> None:
    service, client = base
    service.sources = {"docs": DOCS, "salaries": [document("secret")]}
    service.reranks = {"secret": 4.0}
    response = ask(client, top=50)

    assert "secret" not in {hit["id"] for hit in hits(response)}
    assert "secret" not in response.text
    assert "salaries" not in response.text


@pytest.mark.parametrize("name", ["retrieval_mode", "minimum_search_score", "semantic_captions"])
def test_an_option_without_a_counterpart_is_a_note(base: Parts, name: str) -> None:
    values: dict[str, Any] = {
        "retrieval_mode": "vectors",
        "minimum_search_score": 0.5,
        "semantic_captions": True,
    }
    (note,) = notes(ask(base[1], **{name: values[name]}))

    assert note == f"{name} was left out: a knowledge base has no such option."


def test_a_failed_source_is_a_note(base: Parts) -> None:
    service, client = base
    service.failing = {"docs"}

    assert notes(ask(client)) == [
        "The knowledge source docs failed: its passages are missing.",
    ]


def test_passages_without_room_are_a_note(base: Parts) -> None:
    service, client = base
    service.has_room = False

    assert notes(ask(client)) == [
        "The knowledge base found passages, and none had room in its response."
    ]


@pytest.mark.parametrize("name", ["content", "sourcepage", "sourcefile"])
def test_a_source_without_a_field_is_named_in_the_log(base: Parts, home: Path, name: str) -> None:
    service, client = base
    service.data_fields = [each for each in DATA_FIELDS if each != name]
    response = ask(client)

    assert response.status_code == 503
    assert f"are {name} among the sourceDataFields of the knowledge source?" in log_of(
        home, response
    )


@pytest.mark.parametrize(
    ("answer", "status", "cause"),
    [
        (402, 503, "set its knowledgeRetrieval to standard"),
        (403, 503, "Search Index Data Reader"),
        (404, 503, "there is no knowledge base kb (AZURE_SEARCH_KNOWLEDGE_BASE)"),
        (400, 503, "do AZURE_SEARCH_KNOWLEDGE_EFFORT and AZURE_SEARCH_KNOWLEDGE_SOURCES fit"),
        (429, 429, "status 429"),
        (500, 503, "status 500"),
    ],
)
def test_a_refusal_has_its_status_and_its_cause_in_the_log(
    base: Parts, home: Path, answer: int, status: int, cause: str
) -> None:
    service, client = base
    service.plan.append(error_response(answer))
    response = ask(client)

    assert response.status_code == status
    assert "words" not in response.text
    assert cause in log_of(home, response)
    assert ask(client).status_code == 200


FAULTS: list[Any] = [
    pytest.param([error_response(503)] * 2, 503, 2, id="503 twice"),
    pytest.param([error_response(503)], 200, 2, id="503 once"),
    pytest.param([[Exchange.reset]] * 2, 503, 2, id="reset twice"),
    pytest.param([[Exchange.reset]], 200, 2, id="reset once"),
    pytest.param([[b"garbage\r\n\r\n"]], 503, 1, id="garbage"),
    pytest.param([json_response(7)], 503, 1, id="a 200 of another shape"),
    pytest.param([json_response({"activity": [], "references": [7]})], 503, 1, id="a number"),
    pytest.param([json_response({"activity": []})], 503, 1, id="no references"),
    pytest.param(
        [json_response({"activity": [{"reasoningTokens": "x"}], "references": []})],
        503,
        1,
        id="tokens that are no number",
    ),
    pytest.param([[Exchange.stall]], 504, 1, id="stall"),
]


@pytest.mark.parametrize(("plan", "status", "times"), FAULTS)
def test_a_fault_has_its_status_and_the_next_question_is_answered(
    base: Parts, plan: list[list[Step]], status: int, times: int
) -> None:
    service, client = base
    service.plan += plan
    response = ask(client)

    assert (response.status_code, len(service.requests)) == (status, times)
    assert ask(client).status_code == 200


def test_health_asks_the_base_nothing(base: Parts) -> None:
    service, client = base
    health = client.get("/health").json()

    assert (health["status"], health["index"]) == ("ok", "Azure AI Search, knowledge base")
    assert not any(each.path.startswith("/knowledgebases") for each in service.requests)


def test_health_names_an_index_that_cannot_be_searched(home: Path) -> None:
    service = FakeKnowledgeBase(docs=DOCS)
    with app_over(service, home, **SETTINGS) as (_, client):
        service.plan.append(error_response(403))
        health = client.get("/health").json()

    assert (health["status"], [*health["failing"]]) == ("degraded", ["index"])


@pytest.mark.part("opensearch")
def test_a_search_of_opensearch_reaches_the_base(base: Parts) -> None:
    service, client = base
    body = {"query": {"match": {"text": "deductible"}}, "size": 2}
    found = client.post("/_search", json=body).json()["hits"]["hits"]

    assert [each["_score"] for each in found] == [None, None]
    assert service.requests[0].body["intents"] == [{"type": "semantic", "search": "deductible"}]


@pytest.mark.part("mcp")
def test_tools_of_mcp_reach_the_base_and_the_index(base: Parts) -> None:
    service, client = base

    def call(name: str, **arguments: str) -> Any:
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return client.post("/mcp", json=message).json()["result"]["structuredContent"]

    results = call("search", query="deductible")["results"]
    text = call("fetch", id="plan.md")["text"]

    assert {each["id"] for each in results} == {"public.md", "plan.md", "other.md"}
    assert text == "The deductible in plan."
    assert [each.path.partition("(")[0] for each in service.requests][:2] == [
        "/knowledgebases",
        "/indexes",
    ]


@pytest.mark.part("on-your-data")
@pytest.mark.parametrize(
    ("condition", "status"), [("category eq 'other'", 200), ("nonsense eq 1", 400)]
)
def test_a_filter_of_the_client_narrows_the_search_or_is_at_fault(
    home: Path, condition: str, status: int
) -> None:
    service = FakeKnowledgeBase(docs=DOCS)
    more = {"ALLOW_CLIENT_FILTERS": "true", "CHAT_API_KEY": CHAT_KEY}
    with app_over(service, home, AZURE_SEARCH_KNOWLEDGE_BASE="kb", **more) as (_, client):
        parameters = {"endpoint": service.url, "index_name": "docs", "filter": condition}
        body = {
            "messages": [{"role": "user", "content": "say x [doc1]; deductible"}],
            "data_sources": [{"type": "azure_search", "parameters": parameters}],
        }
        response = client.post("/v1/chat/completions", json=body, headers={"api-key": CHAT_KEY})

    sent = service.requests[0].body["knowledgeSourceParams"][0]
    assert response.status_code == status, response.text
    assert sent["filterAddOn"] == f"{PUBLIC} and ({condition})"
    if status == 400:
        assert response.json()["error"]["param"] == "data_sources[0].parameters.filter"


def test_several_sources_get_the_same_filter(home: Path) -> None:
    service = FakeKnowledgeBase(docs=DOCS)
    service.sources = {"plans": DOCS, "more": [document("more"), document("m-a", oids=["oid-a"])]}
    names = json.dumps([{"name": "plans"}, {"name": "more", "kind": "searchIndex"}])
    with app_over(service, home, AZURE_SEARCH_KNOWLEDGE_SOURCES=names, **SETTINGS) as (_, client):
        found = {hit["id"] for hit in hits(ask(client, "bert", top=50))}
    sent = service.requests[0].body["knowledgeSourceParams"]

    assert "more" in found
    assert "m-a" not in found
    assert [each["knowledgeSourceName"] for each in sent] == ["plans", "more"]
    assert len({each["filterAddOn"] for each in sent}) == 1


AZURE = {"AZURE_SEARCH_ENDPOINT": "https://s.example", "AZURE_SEARCH_INDEX": "docs"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"AZURE_SEARCH_KNOWLEDGE_BASE": "kb"},
            "AZURE_SEARCH_ENDPOINT is required with AZURE_SEARCH_KNOWLEDGE_BASE",
        ),
        (
            {**AZURE, "AZURE_SEARCH_KNOWLEDGE_SOURCES": '[{"name": "a"}]'},
            "AZURE_SEARCH_KNOWLEDGE_BASE is required with AZURE_SEARCH_KNOWLEDGE_SOURCES",
        ),
        (
            {**AZURE, "AZURE_SEARCH_KNOWLEDGE_SOURCES": '[{"name": "a", "kind": "web"}]'},
            "AZURE_SEARCH_KNOWLEDGE_SOURCES",
        ),
        ({**AZURE, "AZURE_SEARCH_KNOWLEDGE_SOURCES": "docs"}, "AZURE_SEARCH_KNOWLEDGE_SOURCES"),
        (
            {**AZURE, "AZURE_SEARCH_KNOWLEDGE_EFFORT": "low"},
            "AZURE_SEARCH_KNOWLEDGE_BASE is required with AZURE_SEARCH_KNOWLEDGE_EFFORT",
        ),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as failure:
        read_settings(settings)

    assert any(each.startswith(problem) for each in failure.value.problems)


def test_index_without_permissions_is_refused_beside_sign_in(home: Path) -> None:
    fields = json.dumps({"oids": None, "groups": None})
    with app(home, AZURE_SEARCH_FIELDS=fields, **SETTINGS) as (_, _model, client):
        response = client.get("/health")

    assert response.status_code == 503
    assert "AZURE_SEARCH_INDEX_PUBLIC" in response.text
