"""`python -m ingest.knowledge_base`, with the real SDK over HTTP, and the app over what it made."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import KnowledgeBase
from azure.search.documents.knowledgebases.aio import KnowledgeBaseRetrievalClient
from azure.search.documents.knowledgebases.models import (
    KnowledgeBaseRetrievalRequest,
    KnowledgeBaseRetrievalResponse,
    KnowledgeBaseSearchIndexReference,
    KnowledgeRetrievalSemanticIntent,
    SearchIndexKnowledgeSourceParams,
)

from tests.support.azurite import AzuriteCredential
from tests.support.fake_knowledge_base import DATA_FIELDS, VERSION, FakeKnowledgeBase
from tests.support.ingest_command import PATIENCE
from tests.support.isolation import app_copy
from tests.support.search_app import DOCS, home, server_tls
from tests.support.upstream import error_response, run_upstream

__all__ = ["home"]  # fixtures

VECTOR = {"name": "embedding", "type": "Collection(Edm.Single)", "dimensions": 2}
INDEX: dict[str, Any] = {
    "name": "docs",
    "fields": [*({"name": name, "type": "Edm.String"} for name in DATA_FIELDS), VECTOR],
    "semantic": {
        "defaultConfiguration": "ranking",
        "configurations": [{"name": "ranking", "prioritizedFields": {}}],
    },
}
BASE, SOURCE = "knowledgebases('kb')", "knowledgesources('docs')"


@pytest.fixture
def service(home: Path) -> Iterator[FakeKnowledgeBase]:
    fake = FakeKnowledgeBase(docs=DOCS, definitions={"indexes('docs')": INDEX})
    with run_upstream(fake, server_tls(home)) as running:
        yield running


def run(
    home: Path, service: FakeKnowledgeBase, *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    own = {
        "AZURE_SEARCH_ENDPOINT": service.url,
        "AZURE_SEARCH_INDEX": "docs",
        "AZURE_SEARCH_KNOWLEDGE_BASE": "kb",
        "SSL_CERT_FILE": str(home / "ca.pem"),
        "PATH": f"{home}{os.pathsep}/usr/bin{os.pathsep}/bin",
    }
    return subprocess.run(
        [sys.executable, "-m", "ingest.knowledge_base", *arguments],
        cwd=app_copy(),
        env={**os.environ, **own, **settings},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def definitions(service: FakeKnowledgeBase) -> dict[str, Any]:
    assert service.definitions is not None
    return service.definitions


def test_base_is_created_tried_and_removed(home: Path, service: FakeKnowledgeBase) -> None:
    created = run(home, service)
    made = dict(definitions(service))
    again = run(home, service)
    removed = run(home, service, "--remove")

    assert (created.returncode, created.stderr) == (0, "")
    assert created.stdout.splitlines() == [
        "The knowledge base kb searches the index docs with the effort minimal.",
        "It was asked a question and found a passage.",
        "Its vectors are not used: a knowledge base needs a vectorizer in the index "
        "(AZURE_SEARCH_VECTORIZER).",
    ]
    assert made[BASE] == {
        "name": "kb",
        "knowledgeSources": [{"name": "docs"}],
        "retrievalReasoningEffort": {"kind": "minimal"},
        "outputMode": "extractiveData",
    }
    assert made[SOURCE]["searchIndexParameters"] == {
        "searchIndexName": "docs",
        "semanticConfigurationName": "ranking",
        "sourceDataFields": [{"name": name} for name in DATA_FIELDS],
    }
    assert again.stdout == created.stdout
    assert removed.stdout == "The knowledge base kb is removed, and its source docs.\n"
    assert definitions(service).keys() == {"indexes('docs')"}


PLANNING = {
    "AZURE_SEARCH_KNOWLEDGE_EFFORT": "low",
    "AZURE_OPENAI_ENDPOINT": "https://models.example/",
    "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
}


def test_effort_that_plans_has_the_model_of_the_answers(
    home: Path, service: FakeKnowledgeBase
) -> None:
    created = run(home, service, "--model", "gpt-5.4-mini", **PLANNING)
    made = dict(definitions(service))

    assert (created.returncode, created.stderr) == (0, "")
    assert "with the effort low." in created.stdout
    removed = run(home, service, "--remove", AZURE_SEARCH_KNOWLEDGE_EFFORT="low")
    base = made[BASE]
    assert removed.returncode == 0
    assert base["retrievalReasoningEffort"] == {"kind": "low"}
    (model,) = base["models"]
    assert model == {
        "kind": "azureOpenAI",
        "azureOpenAIParameters": {
            "resourceUri": "https://models.example",
            "deploymentId": "chat",
            "modelName": "gpt-5.4-mini",
        },
    }


def test_effort_of_a_base_can_change(home: Path, service: FakeKnowledgeBase) -> None:
    planning = run(home, service, "--model", "gpt-5.4-mini", **PLANNING)
    minimal = run(home, service)

    assert (planning.returncode, minimal.returncode) == (0, 0)
    assert "models" not in definitions(service)[BASE]


def test_values_that_the_command_does_not_set_are_kept(
    home: Path, service: FakeKnowledgeBase
) -> None:
    run(home, service, "--model", "gpt-5.4-mini", **PLANNING)
    definitions(service)[SOURCE]["searchIndexParameters"]["baseFilter"] = "category ne 'draft'"
    definitions(service)[BASE]["description"] = "Handbooks."
    again = run(home, service)

    assert (again.returncode, again.stderr) == (0, "")
    parameters = definitions(service)[SOURCE]["searchIndexParameters"]
    assert parameters["baseFilter"] == "category ne 'draft'"
    assert definitions(service)[BASE]["description"] == "Handbooks."
    assert "models" not in definitions(service)[BASE]


def test_model_that_no_base_may_have_is_named(home: Path, service: FakeKnowledgeBase) -> None:
    done = run(home, service, **PLANNING)

    assert done.returncode == 1
    assert "Is chat among the models of a knowledge base" in done.stderr
    assert BASE not in definitions(service)


def test_removing_twice_is_no_error(home: Path, service: FakeKnowledgeBase) -> None:
    assert run(home, service, "--remove").returncode == 0


@pytest.mark.parametrize("arguments", [(), ("--remove",)])
@pytest.mark.parametrize(
    ("name", "definition", "sentence"),
    [
        (
            BASE,
            {"name": "kb", "knowledgeSources": [{"name": "docs"}, {"name": "theirs"}]},
            "The knowledge base kb has other knowledge sources: docs, theirs. Nothing was changed.",
        ),
        (
            SOURCE,
            {
                "name": "docs",
                "kind": "searchIndex",
                "searchIndexParameters": {"searchIndexName": "theirs"},
            },
            "The knowledge source docs is not one over the index docs. Nothing was changed.",
        ),
        (
            SOURCE,
            {"name": "docs", "kind": "web", "webParameters": {}},
            "The knowledge source docs is not one over the index docs. Nothing was changed.",
        ),
    ],
)
def test_definitions_of_others_are_kept(
    home: Path,
    service: FakeKnowledgeBase,
    arguments: tuple[str, ...],
    name: str,
    definition: dict[str, Any],
    sentence: str,
) -> None:
    definitions(service)[name] = definition
    done = run(home, service, *arguments)

    assert done.returncode == 1
    assert sentence in done.stderr
    assert definitions(service) == {"indexes('docs')": INDEX, name: definition}


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        (None, "There is no index docs at this service"),
        ({**INDEX, "semantic": None}, "The index docs has no semantic configuration"),
        ({**INDEX, "fields": INDEX["fields"][:3]}, "lacks the fields category, groups, oids, sour"),
    ],
)
def test_an_index_that_does_not_fit_is_a_sentence(
    home: Path, service: FakeKnowledgeBase, index: dict[str, Any] | None, sentence: str
) -> None:
    definitions(service).pop("indexes('docs')")
    if index is not None:
        definitions(service)["indexes('docs')"] = index
    done = run(home, service)

    assert done.returncode == 1
    assert sentence in done.stderr
    assert [request.method for request in service.requests] == ["GET"]


def test_refusal_names_the_roles(home: Path, service: FakeKnowledgeBase) -> None:
    service.plan.append(error_response(403))
    done = run(home, service)

    assert done.returncode == 1
    assert "Search Service Contributor" in done.stderr


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"AZURE_SEARCH_KNOWLEDGE_BASE": ""}, "AZURE_SEARCH_KNOWLEDGE_BASE is required"),
        ({"AZURE_SEARCH_KNOWLEDGE_EFFORT": "low"}, "AZURE_OPENAI_ENDPOINT is required"),
    ],
)
def test_a_wrong_setting_is_named(
    home: Path, service: FakeKnowledgeBase, settings: dict[str, str], problem: str
) -> None:
    done = run(home, service, **settings)

    assert done.returncode == 1
    assert problem in done.stderr
    assert service.requests == []


SITES: dict[str, Any] = {
    "name": "sites",
    "kind": "indexedOneLake",
    "indexedOneLakeParameters": {
        "ingestionParameters": {"ingestionPermissionOptions": ["userIds", "groupIds"]}
    },
}
LISTED = '[{"name": "docs"}, {"name": "sites", "kind": "indexedOneLake", "permissions": true}]'


def test_base_has_the_sources_of_the_settings(home: Path, service: FakeKnowledgeBase) -> None:
    definitions(service)["knowledgesources('sites')"] = SITES
    service.sources = {"docs": DOCS, "sites": []}
    service.kinds = {"sites": "indexedOneLake"}
    done = run(home, service, AZURE_SEARCH_KNOWLEDGE_SOURCES=LISTED)
    made = dict(definitions(service))
    removed = run(home, service, "--remove", AZURE_SEARCH_KNOWLEDGE_SOURCES=LISTED)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "The knowledge base kb searches the knowledge sources docs, sites"
    )
    assert made[BASE]["knowledgeSources"] == [{"name": "docs"}, {"name": "sites"}]
    assert removed.returncode == 0
    assert definitions(service).keys() == {"indexes('docs')", "knowledgesources('sites')"}


@pytest.mark.parametrize(
    ("existing", "sentence"),
    [
        (None, "There is no knowledge source sites at this service: create it first"),
        ({**SITES, "kind": "web"}, "The knowledge source sites is of the kind web: correct it"),
        (
            {**SITES, "indexedOneLakeParameters": {"ingestionParameters": {}}},
            "The knowledge source sites has not taken over the permissions of its documents",
        ),
    ],
)
def test_source_that_is_not_as_the_settings_say_is_named(
    home: Path, service: FakeKnowledgeBase, existing: dict[str, Any] | None, sentence: str
) -> None:
    if existing:
        definitions(service)["knowledgesources('sites')"] = existing
    done = run(home, service, AZURE_SEARCH_KNOWLEDGE_SOURCES=LISTED)

    assert done.returncode == 1
    assert sentence in done.stderr
    assert {request.method for request in service.requests} == {"GET"}


def test_the_sdk_reads_the_base_and_asks_it(home: Path, service: FakeKnowledgeBase) -> None:
    created = run(home, service)
    options: dict[str, Any] = {
        "api_version": VERSION,
        "connection_verify": str(home / "ca.pem"),
    }
    question = KnowledgeBaseRetrievalRequest(
        intents=[KnowledgeRetrievalSemanticIntent(search="Which deductible?")],
        include_activity=True,
        knowledge_source_params=[
            SearchIndexKnowledgeSourceParams(
                knowledge_source_name="docs",
                include_references=True,
                include_reference_source_data=True,
                reranker_threshold=0,
            )
        ],
    )

    async def ask() -> tuple[KnowledgeBase, KnowledgeBaseRetrievalResponse]:
        credential = AzuriteCredential()
        async with (
            SearchIndexClient(service.url, credential, **options) as definitions,
            KnowledgeBaseRetrievalClient(
                service.url, credential, knowledge_base_name="kb", **options
            ) as base,
        ):
            return await definitions.get_knowledge_base("kb"), await base.retrieve(question)

    base, response = asyncio.run(ask())

    assert created.returncode == 0
    assert [each.name for each in base.knowledge_sources] == ["docs"]
    references = response.references or []
    assert {type(each) for each in references} == {KnowledgeBaseSearchIndexReference}
    assert {each.source_data["sourcepage"] for each in references if each.source_data} == {
        doc["sourcepage"] for doc in DOCS
    }
