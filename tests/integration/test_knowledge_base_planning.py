"""The app over a knowledge base whose model plans the queries: the efforts low and medium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fake_knowledge_base import FakeKnowledgeBase
from tests.support.search_app import (
    DOCS,
    PUBLIC,
    USERS,
    app_over,
    ask,
    home,
    log_of,
    notes,
    signed,
    visible_names,
)
from tests.support.servers import SIGN_IN
from tests.support.upstream import Exchange

__all__ = ["home"]  # fixtures

Parts = tuple[FakeKnowledgeBase, httpx.Client]
SETTINGS = {
    "AZURE_SEARCH_KNOWLEDGE_BASE": "kb",
    "AZURE_SEARCH_KNOWLEDGE_EFFORT": "low",
    **SIGN_IN,
}
TURNS = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Which plans cover dental?"},
    {"role": "assistant", "content": "Plus and Standard."},
    {"role": "user", "content": "say x; Which of them is cheaper?"},
]


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[Parts]:
    service = FakeKnowledgeBase(docs=DOCS, effort="low")
    more = {"SEARCH_SECONDS": "1", "ANSWER_TIMEOUT_SECONDS": "8", "ALLOW_CLIENT_PROMPTS": "true"}
    with app_over(service, home, **SETTINGS, **more) as (_, client):
        yield service, client


@pytest.fixture
def base(running: Parts) -> Parts:
    service, _ = running
    service.requests.clear()
    service.plan.clear()
    return running


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def test_conversation_is_this_request(base: Parts) -> None:
    service, client = base
    response = client.post("/chat", json={"messages": TURNS})

    assert response.status_code == 200, response.text
    assert notes(response) == []
    (request,) = service.requests
    assert request.body == {
        "messages": [message(each["role"], each["content"]) for each in TURNS[1:]],
        "includeActivity": True,
        "maxOutputSizeInTokens": 10_000,
        "maxOutputDocuments": 10,
        "knowledgeSourceParams": [
            {
                "knowledgeSourceName": "docs",
                "kind": "searchIndex",
                "includeReferences": True,
                "includeReferenceSourceData": True,
                "rerankerThreshold": 0,
                "filterAddOn": PUBLIC,
            }
        ],
    }


def test_thought_has_the_planned_queries_and_the_tokens(base: Parts, home: Path) -> None:
    response = base[1].post("/chat", json={"messages": TURNS})
    thought = response.json()["context"]["thoughts"][1]

    assert thought["description"] == TURNS[-1]["content"]
    assert [each["search"] for each in thought["props"]["queries"]] == [
        f"planned: {TURNS[-1]['content']}"
    ]
    assert thought["props"]["tokens"] == {
        "reasoning": 4096,
        "planning_input": 1263,
        "planning_output": 48,
    }
    counts = "search tokens: reasoning=4096 planning_input=1263 planning_output=48"
    assert counts in log_of(home, response)


@pytest.mark.parametrize("user", USERS)
def test_user_sees_what_a_plain_search_shows(base: Parts, user: str) -> None:
    filters = {"use_oid_security_filter": True, "use_groups_security_filter": True}
    body = {"messages": TURNS, "context": {"overrides": {**filters, "top": 50}}}
    response = base[1].post("/chat", json=body, headers=signed(*USERS[user]))
    found = {hit["id"] for hit in response.json()["context"]["thoughts"][2]["description"]}

    assert found == {*visible_names(user, True, True), "plan", "other"}


@pytest.mark.part("opensearch")
def test_search_without_a_conversation_is_one_message(base: Parts) -> None:
    service, client = base
    body = {"query": {"match": {"text": "deductible"}}, "size": 2}
    found = client.post("/_search", json=body).json()["hits"]["hits"]

    assert len(found) == 2
    assert service.requests[0].body["messages"] == [message("user", "deductible")]


def test_stall_ends_after_the_time_of_planning_and_search(base: Parts) -> None:
    service, client = base
    service.plan.append([Exchange.stall])

    assert ask(client).status_code == 504
    assert ask(client).status_code == 200


@pytest.mark.parametrize(("effort", "stored"), [("minimal", "low"), ("low", "minimal")])
def test_effort_that_the_base_does_not_have_is_named(home: Path, effort: str, stored: str) -> None:
    service = FakeKnowledgeBase(docs=DOCS, effort=stored)
    settings = {**SETTINGS, "AZURE_SEARCH_KNOWLEDGE_EFFORT": effort}
    with app_over(service, home, **settings) as (_, client):
        response = ask(client)

    assert response.status_code == 503
    assert "do AZURE_SEARCH_KNOWLEDGE_EFFORT and" in log_of(home, response)
