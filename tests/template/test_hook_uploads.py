"""The hook after provisioning with uploads: their index, and the roles on existing services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.uploads_roles import CREATE_INDEX, WRITE_INDEX, upload_roles
from shared.retrieval.azure_search.index_fields import IndexFields
from tests.support.hook import Cloud, SearchService, make_cloud, project
from tests.support.packaging import needs_git
from tests.support.resource_manager import OPENAI_ID, SEARCH_ID, ResourceManager, serve
from tests.support.upstream import error_response

__all__ = ["project"]  # fixtures
pytestmark = needs_git

INDEX = "docs-uploads"
OUTPUTS = {"AZURE_UPLOADS_IN_USE": "true", "AZURE_UPLOADS_INDEX_IN_USE": INDEX}


@pytest.fixture
def cloud(project: Path, tmp_path: Path) -> Iterator[Cloud]:
    with make_cloud(project, tmp_path, SearchService()) as cloud:
        cloud.values |= OUTPUTS
        yield cloud


def definition(cloud: Cloud) -> Any:
    return cloud.search.indexes[INDEX].definition


def test_index_of_uploads_is_that_of_the_documents_without_them(cloud: Cloud) -> None:
    done = cloud.hook()

    assert (done.returncode, done.stderr) == (0, "")
    assert f"The index {INDEX} of uploads is created." in done.stdout
    assert cloud.search.indexes.keys() == {INDEX, "docs"}
    assert definition(cloud) == cloud.search.indexes["docs"].definition | {"name": INDEX}
    assert cloud.search.indexes[INDEX].docs == {}
    assert cloud.documents != {}


def test_index_of_uploads_is_completed_and_keeps_its_documents(cloud: Cloud) -> None:
    cloud.hook(AZURE_LOAD_SAMPLES="false")
    fields = definition(cloud)["fields"]
    lacking = [one for one in fields if one["name"] != "category"]
    cloud.search.indexes[INDEX].definition["fields"] = lacking
    cloud.search.indexes[INDEX].docs["a"] = {"id": "a"}
    done = cloud.hook(AZURE_LOAD_SAMPLES="false")

    assert (done.returncode, done.stderr) == (0, "")
    assert f"The index {INDEX} of uploads is there." in done.stdout
    assert {one["name"] for one in definition(cloud)["fields"]} == {one["name"] for one in fields}
    assert cloud.search.indexes[INDEX].docs == {"a": {"id": "a"}}


def test_deployment_without_uploads_has_no_index_for_them(cloud: Cloud) -> None:
    done = cloud.hook(AZURE_UPLOADS_IN_USE="false", AZURE_UPLOADS_INDEX_IN_USE="")

    assert (done.returncode, done.stderr) == (0, "")
    assert cloud.search.indexes.keys() == {"docs"}
    assert "uploads" not in done.stdout


def test_hook_waits_for_new_roles(cloud: Cloud) -> None:
    cloud.search.plan += [error_response(403), error_response(403)]
    done = cloud.hook(AZURE_LOAD_SAMPLES="false")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Azure responds with 403") == 2
    assert INDEX in cloud.search.indexes


def test_missing_role_ends_with_instructions(cloud: Cloud) -> None:
    cloud.search.plan += [error_response(403)] * 200
    done = cloud.hook(longest=1)

    assert done.returncode == 1
    assert "Search Service Contributor" in done.stderr
    assert "continue with `azd up`" in done.stderr


def test_private_network_is_skipped_except_from_inside(cloud: Cloud) -> None:
    outside = cloud.hook(AZURE_VNET_IN_USE="true")
    requests = list(cloud.search.requests)
    inside = cloud.hook(AZURE_VNET_IN_USE="true", AZURE_LOAD_SAMPLES="true")

    assert (outside.returncode, requests) == (0, [])
    assert "the index of uploads is not created yet" in outside.stdout
    assert f"The index {INDEX} of uploads is created." in inside.stdout


def run_with_existing_search(cloud: Cloud, **more: str) -> ResourceManager:
    """Run the hook where the search service existed before. Returns what gave the roles."""
    manager = ResourceManager()
    outputs: dict[str, Any] = {"AZURE_EXISTING_SEARCH_ID_IN_USE": SEARCH_ID, **more}
    with serve(manager, lambda tls: tls.load_cert_chain(cloud.home.folder / "server.pem")) as url:
        done = cloud.hook(**outputs, AZURE_RESOURCE_MANAGER_URL=url)
    assert (done.returncode, done.stderr) == (0, "")
    return manager


def test_fields_and_permissions_of_the_documents_do_not_matter(cloud: Cloud) -> None:
    settings = '{"AZURE_SEARCH_FIELDS": "on-your-data", "AZURE_SEARCH_PERMISSIONS": "user-token"}'
    run_with_existing_search(cloud, AZURE_APP_SETTINGS=settings)
    own = IndexFields()

    assert cloud.search.indexes.keys() == {INDEX}
    assert {own.content, own.oids} <= {one["name"] for one in definition(cloud)["fields"]}
    assert not definition(cloud).get("permissionFilterOption")


def test_reader_gets_its_roles_on_services_that_existed(cloud: Cloud) -> None:
    manager = run_with_existing_search(
        cloud, SERVICE_UPLOADS_IDENTITY_PRINCIPAL_ID="reader", AZURE_INDEXER_ID="me"
    )
    given = {
        (one["principalId"], one["roleDefinitionId"].rpartition("/")[2])
        for one in manager.assignments.values()
    }

    assert {("reader", WRITE_INDEX[1]), ("me", CREATE_INDEX[1])} < given
    assert INDEX in cloud.search.indexes


def test_reader_may_call_an_existing_model() -> None:
    environment = {
        "SERVICE_UPLOADS_IDENTITY_PRINCIPAL_ID": "reader",
        "AZURE_EXISTING_OPENAI_ID_IN_USE": OPENAI_ID,
    }
    (role,) = upload_roles(environment)

    assert (role.resource_id, role.role) == (OPENAI_ID, "Cognitive Services OpenAI User")
    assert (role.principal_id, role.principal_type) == ("reader", "ServicePrincipal")
    assert list(upload_roles({**environment, "SERVICE_UPLOADS_IDENTITY_PRINCIPAL_ID": ""})) == []
