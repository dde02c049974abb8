"""Creates and follows an indexer with the real SDK and a strict fake service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pytest

from ingest.indexer.definitions import IndexerPlan
from ingest.indexer.run import (
    IndexerResult,
    blob_metadata,
    create_indexer,
    refuse_acl,
    run_indexer,
)
from ingest.targets.azure_search.index_update import IndexSpec, Vectorizer
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.azure_search.writer import SearchClients
from ingest.targets.index_writer import DocumentRejected, IndexUnavailable
from shared.retrieval.azure_search.index_fields import IndexFields
from tests.support.fake_index import FakeIndex
from tests.support.fake_indexers import FakeIndexerService, indexer_run
from tests.support.search_writer import RecordingRetry, connect_clients, tls_contexts
from tests.support.upstream import error_response, run_upstream

Result = TypeVar("Result")

MAKER = Vectorizer("https://mine.openai.azure.com", "embedding", "text-embedding-3-small")
STORAGE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/mine"
PLAN = IndexerPlan(IndexSpec("docs", IndexFields(), 1536, MAKER), STORAGE, "documents")
FOLDER = "https://mine.blob.core.windows.net/documents/files"


def over(service: FakeIndexerService, work: Callable[[SearchClients], Awaitable[Result]]) -> Result:
    """What `work` gives over a service."""

    async def connect() -> Result:
        async with connect_clients(service) as clients:
            return await work(clients)

    with run_upstream(service, tls_contexts()[0]):
        return asyncio.run(connect())


def run_plan(
    service: FakeIndexerService, retry: RecordingRetry, plan: IndexerPlan = PLAN, **more: Any
) -> IndexerResult:
    return over(service, lambda clients: run_indexer(clients, plan, retry.policy(), **more))


def create(plan: IndexerPlan) -> FakeIndexerService:
    service = FakeIndexerService()
    over(service, lambda clients: create_indexer(clients, plan, RetryPolicy(max_attempts=1)))
    return service


def mappings(service: FakeIndexerService) -> dict[str, str]:
    (selector,) = service.skillsets["docs-passages"]["indexProjections"]["selectors"]
    return {one["name"]: one["source"] for one in selector["mappings"]}


def test_data_source_uses_identity_and_soft_delete() -> None:
    assert create(PLAN).sources["docs-files"] == {
        "name": "docs-files",
        "type": "azureblob",
        "credentials": {"connectionString": f"ResourceId={STORAGE};"},
        "container": {"name": "documents", "query": "files/"},
        "dataDeletionDetectionPolicy": {
            "@odata.type": "#Microsoft.Azure.Search.NativeBlobSoftDeleteDeletionDetectionPolicy"
        },
    }


def test_skillset_makes_passages_with_vectors() -> None:
    service = create(PLAN)
    split, embed = service.skillsets["docs-passages"]["skills"]
    projections = service.skillsets["docs-passages"]["indexProjections"]

    assert (split["textSplitMode"], split["context"]) == ("pages", "/document")
    assert (split["maximumPageLength"], split["pageOverlapLength"]) == (2000, 200)
    assert {key: embed[key] for key in ("resourceUri", "deploymentId", "modelName")} == {
        "resourceUri": "https://mine.openai.azure.com",
        "deploymentId": "embedding",
        "modelName": "text-embedding-3-small",
    }
    assert (embed["context"], embed["dimensions"]) == ("/document/pages/*", 1536)
    assert projections["parameters"] == {"projectionMode": "skipIndexingParentDocuments"}
    assert mappings(service) == {
        "content": "/document/pages/*",
        "sourcepage": "/document/sourcefile",
        "sourcefile": "/document/sourcefile",
        "category": "/document/category",
        "embedding": "/document/pages/*/vector",
    }


def test_indexer_skips_unsupported_files() -> None:
    indexer = create(PLAN).indexers["docs-indexer"]
    functions = {
        one["sourceFieldName"]: (one["targetFieldName"], one["mappingFunction"]["name"])
        for one in indexer["fieldMappings"]
    }

    assert indexer["parameters"]["maxFailedItems"] == -1
    assert indexer["parameters"]["configuration"]["imageAction"] == "none"
    assert indexer["parameters"]["configuration"]["failOnUnsupportedContentType"] is False
    assert functions == {
        "metadata_storage_path": ("id", "base64Encode"),
        "sourcefile": ("sourcefile", "urlDecode"),
        "category": ("category", "urlDecode"),
    }


def test_skillset_without_embedding_model_has_no_vectors() -> None:
    service = create(IndexerPlan(IndexSpec("docs", IndexFields()), STORAGE, "documents"))

    assert len(service.skillsets["docs-passages"]["skills"]) == 1
    assert "embedding" not in mappings(service)


def test_fixed_size_model_gets_no_dimensions() -> None:
    maker = Vectorizer(MAKER.endpoint, "ada", "text-embedding-ada-002")
    service = create(
        IndexerPlan(IndexSpec("docs", IndexFields(), 1536, maker), STORAGE, "documents")
    )

    assert "dimensions" not in service.skillsets["docs-passages"]["skills"][1]


def test_create_indexer_is_idempotent() -> None:
    service = create(PLAN)
    before = (service.sources.copy(), service.skillsets.copy(), service.indexers.copy())
    over(service, lambda clients: create_indexer(clients, PLAN, RetryPolicy(max_attempts=1)))

    assert (service.sources, service.skillsets, service.indexers) == before


def test_index_with_other_key_analyzer_is_rejected() -> None:
    key = {"name": "id", "type": "Edm.String", "key": True, "filterable": True, "sortable": True}
    service = FakeIndexerService(indexes={"docs": FakeIndex({"name": "docs", "fields": []})})
    fields = [key | {"searchable": True, "analyzer": "simple"}]
    service.indexes["docs"].update({"name": "docs", "fields": fields})
    with pytest.raises(IndexUnavailable, match=r"analyzer keyword.*AZURE_SEARCH_INDEX"):
        over(service, lambda clients: create_indexer(clients, PLAN, RetryPolicy(max_attempts=1)))


def test_run_is_followed_to_its_end() -> None:
    key = f"localId={FOLDER.replace(':', '%3a').replace('/', '%2f')}%2fb%2f"
    encoded = "%25C3%25BC.pdf&documentKey=aHR0"  # the address itself is encoded, and then the key
    failure = {"key": key + encoded, "errorMessage": "it is\n encrypted", "statusCode": 400}
    warning = {"key": f"{FOLDER}/long.txt", "message": "cut"}
    retry = RecordingRetry()
    service = FakeIndexerService(
        runs=[
            None,
            indexer_run(1, 3, status="inProgress"),
            indexer_run(1, 3, status="inProgress"),
            indexer_run(1, 9, 1, errors=[failure], warnings=[warning]),
        ]
    )
    outcome = run_plan(service, retry)

    assert outcome == IndexerResult(8, (("b/ü.pdf", "it is encrypted"),), (("long.txt", "cut"),))
    assert retry.messages == [
        "docs-files is set up.",
        "docs-passages is set up.",
        "docs-indexer is set up.",
        "3 files so far, 0 of them failed.",
    ]


def test_result_of_an_earlier_run_is_ignored() -> None:
    service = create(PLAN)
    service.runs = [
        indexer_run(1, 5),
        indexer_run(1, 5),
        indexer_run(2, 0, status="inProgress"),
        indexer_run(2, 7),
    ]

    assert run_plan(service, RecordingRetry()).indexed == 7


def test_run_in_progress_is_followed() -> None:
    service = create(PLAN)
    service.busy, service.runs = True, [indexer_run(1, 2, status="inProgress"), indexer_run(1, 4)]

    assert run_plan(service, RecordingRetry()).indexed == 4


def test_failed_run_raises() -> None:
    broken = indexer_run(1, status="transientFailure", errorMessage="no access\nto the account")
    with pytest.raises(
        DocumentRejected, match="docs-indexer ended with an error: no access to the account"
    ):
        run_plan(FakeIndexerService(runs=[broken]), RecordingRetry())


def test_long_run_continues_without_the_command() -> None:
    retry = RecordingRetry()
    with pytest.raises(DocumentRejected, match=r"still at work after 10 minutes.*run it again"):
        run_plan(
            FakeIndexerService(runs=[indexer_run(1, 2, status="inProgress")]),
            retry,
            max_seconds=600,
        )

    assert sum(retry.waits) == 600


def test_busy_service_is_retried() -> None:
    retry = RecordingRetry()
    service = FakeIndexerService(
        plan=[error_response(503, {"Retry-After": "9"})] * 2, runs=[indexer_run(1, 1)]
    )

    assert run_plan(service, retry).indexed == 1
    assert retry.waits[:2] == [9, 9]


def test_folder_with_rules_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    refuse_acl(tmp_path)
    (tmp_path / "board" / "acl.yaml").write_text("")
    with pytest.raises(DocumentRejected, match=r"acl.yaml.*without --indexer"):
        refuse_acl(tmp_path)


def test_blob_metadata_is_ascii_and_decodable() -> None:
    metadata = blob_metadata("pläne/a #1.pdf")

    assert all(value.isascii() and " " not in value for value in metadata.values())
    assert {key: unquote(value) for key, value in metadata.items()} == {
        "sourcefile": "pläne/a %231.pdf",
        "category": "pläne",
    }
    assert blob_metadata("a.md") == {"sourcefile": "a.md"}
