"""`make index` into an index whose permissions the service checks itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ingest.setup import IngestOptions, build_index_spec
from ingest.targets.azure_search.writer import AzureSearchWriter
from ingest.targets.index_writer import Document, DocumentRejected, IndexUnavailable
from shared.settings import SettingsError, read_settings
from tests.support.fake_permissions import PermissionService
from tests.support.fake_service import ELEVATED_READ, FakeIndexService
from tests.support.ingest_azure import Filled
from tests.support.ingest_command import run_command, write
from tests.support.search_app import home, server_tls
from tests.support.search_writer import (
    INDEX_SPEC,
    document,
    run,
    run_service,
    update_index,
)
from tests.support.upstream import run_upstream

__all__ = ["home"]  # fixtures

SPEC = replace(INDEX_SPEC, checks_permissions=True)
PUBLIC = document("public.md", ids="p0-1")
HERS = document("hers.md", ids="p0-1", oids=("oid-a",))
TEAM = document("team.md", ids="p0-1", groups=("g1",))
EMPTY: Mapping[str, Document] = {}
FOLDER = {each.name: each for each in (PUBLIC, HERS, TEAM)}


def update(service: FakeIndexService, folder: Mapping[str, Document]) -> None:
    run(service, partial(update_index, folder=folder), index_spec=SPEC)


def readers(service: FakeIndexService) -> dict[str, tuple[Any, Any]]:
    docs = service.indexes["docs"].docs.values()
    return {doc["sourcefile"]: (doc["oids"], doc["groups"]) for doc in docs}


def test_fields_tell_the_service_which_ids_they_hold() -> None:
    with run_service() as service:
        update(service, FOLDER)
    definition = service.indexes["docs"].definition
    filters = {each["name"]: each.get("permissionFilter") for each in definition["fields"]}

    assert definition["permissionFilterOption"] == "enabled"
    assert {name: kind for name, kind in filters.items() if kind} == {
        "oids": "userIds",
        "groups": "groupIds",
    }


def test_document_without_rules_is_for_everyone() -> None:
    with run_service() as service:
        update(service, FOLDER)

    assert readers(service) == {
        "public.md": (["all"], []),
        "hers.md": (["oid-a"], []),
        "team.md": ([], ["g1"]),
    }


def test_restricted_documents_are_updated_and_removed() -> None:
    with run_service() as service:
        update(service, FOLDER)
        changed = document("hers.md", "2", ids="p0-2", oids=("oid-b",))
        update(service, {"public.md": PUBLIC, "hers.md": changed})
        searches = [each for each in service.requests if "post.search" in each.path]

    assert readers(service) == {"public.md": (["all"], []), "hers.md": (["oid-b"], [])}
    assert [*service.indexes["docs"].docs] == ["public-md-p0-1", "hers-md-p0-2"]
    assert {each.headers.get(ELEVATED_READ) for each in searches} == {"true"}


def test_unchanged_restricted_documents_are_not_written_again() -> None:
    with run_service() as service:
        update(service, FOLDER)
        at = len(service.requests)
        update(service, FOLDER)
        again = service.requests[at:]

    assert not [each for each in again if "search.index" in each.path]


def test_restricted_files_are_those_that_are_not_for_everyone() -> None:
    with run_service() as service:
        update(service, FOLDER)
        files = run(service, AzureSearchWriter.restricted_files, index_spec=SPEC)

    assert files == {"hers.md", "team.md"}


def with_ids(name: str, field: str, ids: tuple[str, ...]) -> Document:
    return document(name, "1", "p0-1", **{field: ids})


@pytest.mark.parametrize("field", ["oids", "groups"])
def test_more_ids_than_the_service_takes_are_refused(field: str) -> None:
    ids = tuple(f"id-{number}" for number in range(1001))
    most = with_ids("most.md", field, ids[:1000])
    with run_service() as service:
        update(service, {"most.md": most})
        with pytest.raises(DocumentRejected, match="name 1001 ids"):
            update(service, {"most.md": most, "more.md": with_ids("more.md", field, ids)})

    assert readers(service).keys() == {"most.md"}


def test_index_that_the_service_does_not_check_is_refused() -> None:
    with run_service() as service:
        run(service, partial(update_index, folder=FOLDER))
        before = readers(service)
        with pytest.raises(IndexUnavailable, match="does not check the permissions"):
            update(service, FOLDER)

    assert readers(service) == before


def test_run_without_the_setting_changes_nothing_in_a_checked_index() -> None:
    changed = document("hers.md", "2", ids="p0-2", oids=("oid-b",))
    with run_service() as service:
        update(service, FOLDER)
        before = dict(service.indexes["docs"].docs)
        with pytest.raises(IndexUnavailable, match="set AZURE_SEARCH_PERMISSIONS"):
            run(service, partial(update_index, folder={"hers.md": changed}))

    assert service.indexes["docs"].docs == before


@pytest.mark.parametrize("field", ["permissionFilterOption", "oids"])
def test_index_that_is_checked_in_part_is_refused(field: str) -> None:
    with run_service() as service:
        update(service, EMPTY)
        definition = service.indexes["docs"].definition
        definition.pop(field, None)
        definition["fields"] = [each for each in definition["fields"] if each["name"] != field]
        with pytest.raises(IndexUnavailable, match="does not check the permissions"):
            update(service, FOLDER)

    assert service.indexes["docs"].docs == {}


ACL = """
hers.md:
  oids: [oid-a]
team/**:
  groups: [g1]
"""


def test_command_writes_what_the_service_shows_to_each_user(home: Path, tmp_path: Path) -> None:
    write(tmp_path, "docs/acl.yaml", ACL)
    for name in ("public.md", "hers.md", "team/plan.md"):
        write(tmp_path, f"docs/{name}", "The deductible is 2,000 dollars.")
    with run_upstream(Filled(), server_tls(home)) as service:
        settings = {
            "AZURE_SEARCH_ENDPOINT": service.url,
            "AZURE_SEARCH_INDEX": "docs",
            "AZURE_SEARCH_PERMISSIONS": "user-token",
            "SSL_CERT_FILE": str(home / "ca.pem"),
            "PATH": f"{home}{os.pathsep}/usr/bin{os.pathsep}/bin",
        }
        done = run_command(str(tmp_path / "docs"), **settings)
    docs = list(service.indexes["docs"].docs.values())
    checker = PermissionService(members={"oid-a": [], "oid-b": ["g1"]})

    def visible(oid: str | None) -> set[str]:
        return {doc["sourcefile"] for doc in checker.visible(oid, docs)}

    assert (done.returncode, done.stderr) == (0, "")
    assert visible(None) == {"public.md"}
    assert visible("oid-a") == {"public.md", "hers.md"}
    assert visible("oid-b") == {"public.md", "team/plan.md"}


def test_indexer_of_the_service_is_refused(tmp_path: Path) -> None:
    settings = {
        "AZURE_SEARCH_ENDPOINT": "https://s.example",
        "AZURE_SEARCH_INDEX": "docs",
        "AZURE_SEARCH_PERMISSIONS": "user-token",
    }
    with pytest.raises(SettingsError, match="--indexer cannot write the permissions"):
        build_index_spec(read_settings(settings), 0, IngestOptions(tmp_path, indexer=True))
