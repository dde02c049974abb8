"""A knowledge base with documents elsewhere: Blob storage, SharePoint, OneLake, SQL, files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.calls import CHAT_KEY
from tests.support.fake_knowledge_base import FakeKnowledgeBase, document_elsewhere
from tests.support.search_app import DOCS, PUBLIC, app_over, ask, home, log_of, notes
from tests.support.servers import SIGN_IN
from tests.support.upstream import json_response

__all__ = ["home"]  # fixtures

BASE = {"AZURE_SEARCH_KNOWLEDGE_BASE": "kb"}
ADDRESS = "https://contoso.sharepoint.com/sites/hr/Leave [2026].docx"
KINDS = ["azureBlob", "indexedSharePoint", "indexedOneLake", "indexedSql"]


def service_with(kind: str, address: str = ADDRESS) -> FakeKnowledgeBase:
    elsewhere = [document_elsewhere("leave", address)]
    sources: dict[str, Sequence[Mapping[str, Any]]] = {"docs": DOCS, "elsewhere": elsewhere}
    return FakeKnowledgeBase(docs=DOCS, sources=sources, kinds={"elsewhere": kind})


def settings_for(kind: str, **more: str) -> dict[str, str]:
    sources = [{"name": "docs"}, {"name": "elsewhere", "kind": kind}]
    return {**BASE, "AZURE_SEARCH_KNOWLEDGE_SOURCES": json.dumps(sources), **more}


def hit_of(response: httpx.Response, id: str = "leave") -> Any:
    assert response.status_code == 200, response.text
    hits = response.json()["context"]["thoughts"][2]["description"]
    return next((hit for hit in hits if hit["id"] == id), None)


@pytest.mark.parametrize("kind", KINDS)
def test_passage_is_cited_by_the_address_of_its_document(home: Path, kind: str) -> None:
    service = service_with(kind)
    with app_over(service, home, **settings_for(kind)) as (_, client):
        response = ask(client)
    hit = hit_of(response)
    index, elsewhere = service.requests[0].body["knowledgeSourceParams"]

    assert notes(response) == []
    assert hit["content"] == "The deductible in leave."
    assert hit["sourcepage"] == ADDRESS.replace("[", "%5B").replace("]", "%5D")
    assert hit["reranker_score"] == 1.5
    assert ADDRESS in response.text
    assert index["filterAddOn"] == PUBLIC
    assert elsewhere == {
        "knowledgeSourceName": "elsewhere",
        "kind": kind,
        "includeReferences": True,
        "includeReferenceSourceData": True,
        "rerankerThreshold": 0,
    }


def test_file_of_a_source_has_a_name_and_no_link(home: Path) -> None:
    with app_over(service_with("file", "leave.pdf"), home, **settings_for("file")) as (_, client):
        response = ask(client)

    assert hit_of(response)["sourcepage"] == "leave.pdf"
    assert "/content/leave.pdf" not in response.text


@pytest.mark.part("mcp")
def test_link_of_mcp_is_the_address(home: Path) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "leave"}},
    }
    with app_over(service_with("azureBlob"), home, **settings_for("azureBlob")) as (_, client):
        result = client.post("/mcp", json=message).json()["result"]["structuredContent"]

    assert ADDRESS in [each["url"] for each in result["results"]]


def test_category_leaves_out_a_source_without_categories(home: Path) -> None:
    service = service_with("azureBlob")
    service.reranks = {"leave": 4.0}
    with app_over(service, home, **settings_for("azureBlob")) as (_, client):
        response = ask(client, include_category="other")
        excluding = ask(client, exclude_category="other")

    assert hit_of(response) is None
    assert hit_of(response, "other") is not None
    assert "in leave" not in response.text
    assert notes(response) == [
        "The knowledge source elsewhere was left out: it has no categories and no filter."
    ]
    assert "is not in the settings" not in log_of(home, response)
    assert hit_of(excluding) is not None


@pytest.mark.part("on-your-data")
def test_filter_of_a_client_leaves_out_a_source_without_a_filter(home: Path) -> None:
    service = service_with("azureBlob")
    more = {"ALLOW_CLIENT_FILTERS": "true", "CHAT_API_KEY": CHAT_KEY}
    with app_over(service, home, **settings_for("azureBlob", **more)) as (_, client):
        parameters = {"endpoint": service.url, "index_name": "docs", "filter": "category eq 'x'"}
        body = {
            "messages": [{"role": "user", "content": "say x [doc1]; deductible"}],
            "data_sources": [{"type": "azure_search", "parameters": parameters}],
        }
        response = client.post("/v1/chat/completions", json=body, headers={"api-key": CHAT_KEY})

    assert response.status_code == 200, response.text
    assert "in leave" not in response.text


@pytest.mark.parametrize(("public", "status"), [("", 503), ("true", 200)])
def test_source_that_no_user_restricts_is_refused_beside_sign_in(
    home: Path, public: str, status: int
) -> None:
    more = {**SIGN_IN, "AZURE_SEARCH_INDEX_PUBLIC": public}
    with app_over(service_with("azureBlob"), home, **settings_for("azureBlob", **more)) as (
        _,
        client,
    ):
        response = client.get("/health")

    assert response.status_code == status
    assert ("a source that cannot be restricted" in response.text) == (status == 503)


def test_source_without_a_text_is_named_in_the_log(home: Path) -> None:
    service = service_with("azureBlob")
    service.sources = {"docs": DOCS, "elsewhere": [{"uid": "leave", "address": ADDRESS}]}
    with app_over(service, home, **settings_for("azureBlob")) as (_, client):
        response = ask(client)

    assert response.status_code == 503
    assert "are snippet among the sourceDataFields" in log_of(home, response)


def test_source_of_another_kind_than_the_setting_says_is_not_used(home: Path) -> None:
    service = service_with("azureBlob")
    reply = {
        "activity": [{"type": "azureBlob", "id": 1, "knowledgeSourceName": "docs", "count": 1}],
        "references": [
            {
                "type": "azureBlob",
                "id": "0",
                "activitySource": 1,
                "blobUrl": ADDRESS,
                "sourceData": {"snippet": "Secret."},
                "rerankerScore": 2.0,
            }
        ],
    }
    with app_over(service, home, **BASE) as (_, client):
        service.plan.append(json_response(reply))
        response = ask(client)

    assert response.status_code == 503
    assert "the source docs is of the kind azureBlob" in log_of(home, response)
