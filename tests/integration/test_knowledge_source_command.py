"""`make knowledge-base SOURCE=...`, with the real SDK over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ingest.targets.azure_search.knowledge_source import Patience, Progress, follow_source
from ingest.targets.azure_search.writer import make_clients
from ingest.targets.index_writer import IndexUnavailable
from tests.support.azurite import AzuriteCredential
from tests.support.fake_knowledge_base import FakeKnowledgeBase
from tests.support.fake_knowledge_sources import state, status
from tests.support.ingest_command import PATIENCE
from tests.support.isolation import app_copy
from tests.support.search_app import DOCS, home, server_tls
from tests.support.servers import ROOT
from tests.support.upstream import error_response, run_upstream

__all__ = ["home"]  # fixtures

ID = "11111111-1111-1111-1111-111111111111"
OTHER_ID = "22222222-2222-2222-2222-222222222222"
STORAGE = "/subscriptions/1/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/contoso"
BLOBS = f"""\
name: handbooks
kind: azureBlob
address: https://contoso.blob.core.windows.net/docs/hand%20books
storage: {STORAGE}
permissions: false
"""
SHAREPOINT = f"""\
name: sites
kind: indexedSharePoint
address: https://contoso.sharepoint.com/sites/hr
tenant: {ID}
application: {OTHER_ID}
secret: SITES_SECRET
permissions: true
schedule: PT1H
description: Sites of the staff.
"""
ONELAKE = f"""\
name: lake
kind: indexedOneLake
address: https://onelake.dfs.fabric.microsoft.com/{ID}/{OTHER_ID}/Files/plans
permissions: true
"""
SECRET = "t0p~s3cret"
MODEL = {
    "AZURE_OPENAI_ENDPOINT": "https://models.example/",
    "AZURE_OPENAI_CHAT_DEPLOYMENT": "chat",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "embed",
}
DONE = [status(last=state(3))]


@pytest.fixture
def service(home: Path) -> Iterator[FakeKnowledgeBase]:
    fake = FakeKnowledgeBase(docs=DOCS, definitions={})
    fake.statuses = {name: list(DONE) for name in ("handbooks", "sites", "lake")}
    with run_upstream(fake, server_tls(home)) as running:
        yield running


def definitions(service: FakeKnowledgeBase) -> dict[str, Any]:
    assert service.definitions is not None
    return service.definitions


def run(
    home: Path, service: FakeKnowledgeBase, source: str, *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    file = home / "source.yaml"
    file.write_text(source, "utf-8")
    own = {
        "AZURE_SEARCH_ENDPOINT": service.url,
        "AZURE_SEARCH_INDEX": "docs",
        "AZURE_SEARCH_KNOWLEDGE_BASE": "kb",
        "SITES_SECRET": SECRET,
        "SSL_CERT_FILE": str(home / "ca.pem"),
        "PATH": f"{home}{os.pathsep}/usr/bin{os.pathsep}/bin",
    }
    return subprocess.run(
        [sys.executable, "-m", "ingest.knowledge_base", "--source", str(file), *arguments],
        cwd=app_copy(),
        env={**os.environ, **own, **settings},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize(
    ("source", "name", "parameters"),
    [
        (
            BLOBS,
            "handbooks",
            {
                "connectionString": f"ResourceId={STORAGE};",
                "containerName": "docs",
                "folderPath": "hand books",
                "isADLSGen2": False,
                "ingestionParameters": {"contentExtractionMode": "minimal"},
            },
        ),
        (
            BLOBS.replace("false", "true\nhierarchical: true"),
            "handbooks",
            {
                "connectionString": f"ResourceId={STORAGE};",
                "containerName": "docs",
                "folderPath": "hand books",
                "isADLSGen2": True,
                "ingestionParameters": {
                    "contentExtractionMode": "minimal",
                    "ingestionPermissionOptions": ["userIds", "groupIds", "rbacScope"],
                },
            },
        ),
        (
            SHAREPOINT,
            "sites",
            {
                "connectionString": (
                    "SharePointOnlineEndpoint=https://contoso.sharepoint.com/sites/hr;"
                    f"ApplicationId={OTHER_ID};ApplicationSecret={SECRET};TenantId={ID}"
                ),
                "containerName": "defaultSiteLibrary",
                "ingestionParameters": {
                    "contentExtractionMode": "minimal",
                    "ingestionSchedule": {"interval": "PT1H"},
                    "ingestionPermissionOptions": ["userIds", "groupIds"],
                },
            },
        ),
        (
            ONELAKE,
            "lake",
            {
                "fabricWorkspaceId": ID,
                "lakehouseId": OTHER_ID,
                "targetPath": "plans",
                "ingestionParameters": {
                    "contentExtractionMode": "minimal",
                    "ingestionPermissionOptions": ["userIds", "groupIds"],
                },
            },
        ),
    ],
)
def test_source_of_a_file_is_created(
    home: Path,
    service: FakeKnowledgeBase,
    source: str,
    name: str,
    parameters: Mapping[str, Any],
) -> None:
    done = run(home, service, source)
    made = definitions(service)[f"knowledgesources('{name}')"]

    assert (done.returncode, done.stderr) == (0, "")
    assert SECRET not in done.stdout
    assert made[f"{made['kind']}Parameters"] == parameters
    assert done.stdout.startswith(
        f"The knowledge source {name} has read its documents: 3 put, 1 skipped, 0 failed.\n"
    )
    setting = json.loads(done.stdout.splitlines()[-1])
    permissions = {"permissions": True} if "permissions: true" in source else {}
    assert setting == [{"name": "docs"}, {"name": name, "kind": made["kind"], **permissions}]


def test_file_of_the_docs_is_valid(home: Path, service: FakeKnowledgeBase) -> None:
    page = (ROOT / "docs" / "knowledge-base.md").read_text("utf-8")
    done = run(home, service, page.split("```yaml\n")[1].split("```")[0])

    assert (done.returncode, done.stderr) == (0, "")
    assert definitions(service).keys() == {"knowledgesources('sites')"}


def test_source_has_the_embedding_model_of_the_settings(
    home: Path, service: FakeKnowledgeBase
) -> None:
    again = status(last=state(3), end="2026-11-26T10:00:00Z")
    service.statuses["handbooks"] = [DONE[0], DONE[0], again]
    done = run(home, service, BLOBS, "--model", "text-embedding-3-small", **MODEL)
    words = run(home, service, BLOBS)
    parameters = definitions(service)["knowledgesources('handbooks')"]["azureBlobParameters"]

    assert (done.returncode, words.returncode) == (0, 0), done.stderr
    put = next(each.body for each in service.requests if each.method == "PUT")
    assert put["azureBlobParameters"]["ingestionParameters"]["embeddingModel"] == {
        "kind": "azureOpenAI",
        "azureOpenAIParameters": {
            "resourceUri": "https://models.example",
            "deploymentId": "embed",
            "modelName": "text-embedding-3-small",
        },
    }
    assert "found by words alone" not in done.stdout
    assert "found by words alone" in words.stdout
    assert parameters["ingestionParameters"] == {"contentExtractionMode": "minimal"}


def test_values_of_others_are_kept(home: Path, service: FakeKnowledgeBase) -> None:
    run(home, service, SHAREPOINT)
    made = definitions(service)["knowledgesources('sites')"]["indexedSharePointParameters"]
    made["ingestionParameters"]["networkAccessMode"] = "private"
    made["createdResources"] = {"index": "sites-index"}
    made["query"] = "author:anna"
    service.statuses["sites"] = [DONE[0], status(last=state(5), end="2026-11-26T10:00:00Z")]
    changed = SHAREPOINT.replace("schedule: PT1H\n", "").replace(
        "description: Sites of the staff.\n", ""
    )
    again = run(home, service, changed)
    kept = definitions(service)["knowledgesources('sites')"]["indexedSharePointParameters"]

    assert (again.returncode, again.stderr) == (0, "")
    assert kept["ingestionParameters"]["networkAccessMode"] == "private"
    assert "ingestionSchedule" not in kept["ingestionParameters"]
    assert "createdResources" not in kept
    assert kept["query"] == "author:anna"
    assert "description" not in definitions(service)["knowledgesources('sites')"]
    assert ": 5 put, 1 skipped" in again.stdout


def test_failed_documents_are_named(home: Path, service: FakeKnowledgeBase) -> None:
    service.statuses["handbooks"] = [
        status(name="creating"),
        status(),
        status(state(1, 1, **{"a.pdf": "It is encrypted."})),
        status(state(2, 2, **{"b.pdf": "It is empty."})),
        status(last=state(4, 2)),
    ]
    done = run(home, service, BLOBS)

    assert done.returncode == 0
    assert done.stdout.splitlines()[:4] == [
        "The knowledge source handbooks has read its documents: 4 put, 1 skipped, 2 failed.",
        "Failed:",
        "  a.pdf: It is encrypted.",
        "  b.pdf: It is empty.",
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("kind: indexedSharePoint", "kind: web"), "source.yaml: must have a kind: azureBlob"),
        (("secret: SITES_SECRET", f"secret: {SECRET}"), "must be the name of an environment"),
        (("secret: SITES_SECRET", "secret: NO_SECRET"), "NO_SECRET is not set"),
        (("secret: SITES_SECRET", "password: x"), "indexedSharePoint.secret: is required"),
        (("permissions: true\n", ""), "indexedSharePoint.permissions: is required"),
        (("PT1H", "P2D"), "indexedSharePoint.schedule: must be an interval from PT5M to P1D"),
        (("PT1H", "PT1M"), "indexedSharePoint.schedule: must be an interval from PT5M to P1D"),
        (("https://contoso.sharepoint", "https://x;y.sharepoint"), "must be the site, such as"),
        (("name: sites", "name: sites\nname: b"), "cannot be read: duplicate key name"),
        (("secret: SITES_SECRET", f'secret: "{SECRET}'), "source.yaml cannot be read: "),
        (("secret: SITES_SECRET", f"secret: @{SECRET}"), "that cannot start any token, line 6"),
        (("sharepoint.com", "sharepoint.zip"), "must be the site, such as"),
        (("description", "folder"), "indexedSharePoint.folder: is not known here"),
    ],
)
def test_wrong_file_is_a_sentence(
    home: Path, service: FakeKnowledgeBase, change: tuple[str, str], sentence: str
) -> None:
    done = run(home, service, SHAREPOINT.replace(*change))

    assert done.returncode == 1
    assert sentence in done.stderr
    assert SECRET not in done.stderr
    assert service.requests == []


def test_account_of_address_and_id_is_the_same(home: Path, service: FakeKnowledgeBase) -> None:
    done = run(home, service, BLOBS.replace("https://contoso", "https://fabrikam"))

    assert done.returncode == 1
    assert "address and storage must name the same account" in done.stderr


def test_value_that_would_change_the_connection_is_refused(
    home: Path, service: FakeKnowledgeBase
) -> None:
    done = run(home, service, SHAREPOINT, SITES_SECRET=f"{SECRET};TenantId=x")

    assert done.returncode == 1
    assert "the value of SITES_SECRET is empty, or has a character that none has" in done.stderr
    assert SECRET not in done.stderr


def test_refused_definition_does_not_show_the_secret(
    home: Path, service: FakeKnowledgeBase
) -> None:
    service.plan = [error_response(404), error_response(400, code="Invalid", echo=SECRET)]
    done = run(home, service, SHAREPOINT)

    assert done.returncode == 1
    assert "did not accept the request (400" in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("permissions: true", "permissions: false"), "its `permissions` are different"),
        (("indexedOneLake", "azureBlob"), "is of the kind indexedOneLake. Nothing was changed"),
        (("/Files/plans", "/Files/board"), "is for documents of another place. Nothing was"),
    ],
)
def test_source_does_not_change_its_readers_or_its_kind(
    home: Path, service: FakeKnowledgeBase, change: tuple[str, str], sentence: str
) -> None:
    run(home, service, ONELAKE)
    before = dict(definitions(service))
    other = ONELAKE.replace(*change)
    if "azureBlob" in change:
        other = BLOBS.replace("handbooks", "lake")
    done = run(home, service, other)

    assert done.returncode == 1
    assert sentence in done.stderr
    assert definitions(service) == before


@pytest.mark.parametrize("shows", [True, False])
def test_source_does_not_change_its_site(
    home: Path, service: FakeKnowledgeBase, shows: bool
) -> None:
    run(home, service, SHAREPOINT)
    made = definitions(service)["knowledgesources('sites')"]["indexedSharePointParameters"]
    if not shows:  # as a service that shows no connection
        made["connectionString"] = None
    service.statuses["sites"] = [DONE[0], status(last=state(5), end="2026-11-26T10:00:00Z")]
    other = run(home, service, SHAREPOINT.replace("sites/hr", "sites/board"))

    assert other.returncode == (1 if shows else 0)
    assert ("is for documents of another place" in other.stderr) == shows


def test_blobs_do_not_change_which_permissions_count(
    home: Path, service: FakeKnowledgeBase
) -> None:
    run(home, service, BLOBS.replace("false", "true"))
    done = run(home, service, BLOBS.replace("false", "true\nhierarchical: true"))

    assert done.returncode == 1
    assert "its `permissions` are different" in done.stderr


def test_source_of_another_kind_is_not_removed(home: Path, service: FakeKnowledgeBase) -> None:
    run(home, service, ONELAKE)
    before = dict(definitions(service))
    done = run(home, service, BLOBS.replace("handbooks", "lake"), "--remove")

    assert done.returncode == 1
    assert "is of the kind indexedOneLake" in done.stderr
    assert definitions(service) == before


def test_source_that_the_app_searches_needs_no_setting(
    home: Path, service: FakeKnowledgeBase
) -> None:
    listed = '[{"name": "lake", "kind": "indexedOneLake", "permissions": true}]'
    done = run(home, service, ONELAKE, AZURE_SEARCH_KNOWLEDGE_SOURCES=listed)

    assert done.returncode == 0
    assert "AZURE_SEARCH_KNOWLEDGE_SOURCES" not in done.stdout


def test_source_is_removed_from_its_base_first(home: Path, service: FakeKnowledgeBase) -> None:
    run(home, service, ONELAKE)
    run(home, service, BLOBS)
    effort = {"retrievalReasoningEffort": {"kind": "minimal"}, "outputMode": "extractiveData"}
    sources = [{"name": "lake"}, {"name": "handbooks"}]
    definitions(service)["knowledgebases('kb')"] = {
        "name": "kb",
        "knowledgeSources": sources,
        **effort,
    }
    removed = run(home, service, ONELAKE, "--remove", SITES_SECRET="")
    only = run(home, service, BLOBS, "--remove")

    assert (removed.returncode, removed.stderr) == (0, "")
    assert definitions(service)["knowledgebases('kb')"]["knowledgeSources"] == sources[1:]
    assert only.returncode == 1
    assert "handbooks is the only one of the base kb. Remove the base first" in only.stderr
    assert definitions(service).keys() == {"knowledgebases('kb')", "knowledgesources('handbooks')"}


def follow(
    home: Path, service: FakeKnowledgeBase, last_run: str | None, patience: Patience
) -> tuple[Progress | None, list[int]]:
    """Follow a source. Returns its result, and the numbers of documents that were shown."""
    shown: list[int] = []

    async def run() -> Progress | None:
        ca = str(home / "ca.pem")
        clients = make_clients(service.url, "docs", AzuriteCredential(), connection_verify=ca)
        try:
            return await follow_source(
                clients.indexes,
                "handbooks",
                last_run,
                lambda progress: shown.append(progress.processed),
                patience,
            )
        finally:
            await clients.close()

    return asyncio.run(run()), shown


def test_source_without_progress_is_left_to_the_service(
    home: Path, service: FakeKnowledgeBase
) -> None:
    service.statuses["handbooks"] = [status(state(1))]

    with pytest.raises(IndexUnavailable, match="made no progress"):
        follow(home, service, None, Patience(stall=0.2, poll=(0.01,)))


def test_progress_is_shown_at_each_change(home: Path, service: FakeKnowledgeBase) -> None:
    service.statuses["handbooks"] = [
        status(state(1)),
        status(state(1)),
        status(state(2)),
        status(last=state(3)),
    ]
    result, shown = follow(home, service, None, Patience(poll=(0.01,)))

    assert result is not None
    assert (result.processed, shown) == (3, [1, 2])


def test_update_without_a_new_run_is_not_reported_as_one(
    home: Path, service: FakeKnowledgeBase
) -> None:
    patience = Patience(begin=0.1, poll=(0.01,))
    later, _ = follow(home, service, "2026-11-25T08:00:00Z", patience)
    same, _ = follow(home, service, "2026-11-26T09:00:00Z", patience)

    assert later is not None
    assert later.processed == 3
    assert same is None
