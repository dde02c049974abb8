"""The command and the app with settings of Azure: index, container and models."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ingest.targets.azure_search.blob_upload import make_uploader
from tests.support import sample_files as samples
from tests.support.azurite import AzuriteCredential, azurite, make_home, needs_azurite
from tests.support.fake_search import FakeSearch
from tests.support.ingest_azure import Azure, Filled
from tests.support.ingest_command import Seeing, run_command, talking, write
from tests.support.servers import run_server
from tests.support.upstream import run_upstream

pytestmark = needs_azurite

QUESTION = "Where is the org chart?"


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    home = make_home(tmp_path_factory.mktemp("azure"))
    with ExitStack() as stack:
        model = stack.enter_context(run_upstream(Seeing()))
        settings = {
            **talking(model),
            "AZURE_SEARCH_INDEX": "docs",
            "AZURE_STORAGE_ENDPOINT": stack.enter_context(azurite(home)),
            "SSL_CERT_FILE": home.ca,
            "PATH": f"{home.folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        }
        fake = Azure(home, Filled(), model, settings)
        search = stack.enter_context(fake.listening(fake.search))
        settings["AZURE_SEARCH_ENDPOINT"] = search.url
        yield fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "docs/a.md", "Apples cost two dollars.")
    write(tmp_path, "docs/[b] #1.md", "Bananas cost three dollars.")
    (tmp_path / "docs" / "org-chart.png").write_bytes(samples.image("PNG"))
    return tmp_path / "docs"


def test_chat_shows_images_of_an_indexed_folder(azure: Azure, folder: Path, tmp_path: Path) -> None:
    first = run_command(str(folder), **azure.settings)
    again = run_command(str(folder), **azure.settings)
    docs = list(azure.search.indexes["docs"].docs.values())
    overrides = {"use_gpt4v": True, "top": 50}
    body = {
        "messages": [{"role": "user", "content": QUESTION}],
        "context": {"overrides": overrides},
    }
    with azure.listening(FakeSearch(docs=[{"image": None, **doc} for doc in docs])) as search:
        settings = {**azure.settings, "AZURE_SEARCH_ENDPOINT": search.url}
        with run_server("dev", tmp_path, settings) as server, server.client() as client:
            health = client.get("/health").json()
            details = health.pop("details")
            response = client.post("/chat", json=body)
            opened = {
                name: client.get(f"/content/{name}")
                for name in response.json()["context"]["data_points"]["citations"]
            }
    content = azure.model.requests[-1].body["messages"][-1]["content"]
    (image,) = response.json()["context"]["data_points"]["images"]

    assert (first.returncode, first.stderr) == (0, "")
    assert "3 documents put (3 passages), 0 unchanged" in first.stdout
    assert "0 documents put (0 passages), 3 unchanged" in again.stdout
    assert health == {
        "status": "ok",
        "model": "gpt-4o",
        "index": "Azure AI Search",
        "files": "blobs",
        "vectors": "e",
    }
    assert details["index"]["passages"] == len(docs)
    assert content[1]["image_url"]["url"] == image["url"]
    assert image["url"].startswith("data:image/png;base64,")
    assert opened.keys() == {"a.md", "%5Bb%5D %231.md", "org-chart.png"}
    assert opened["%5Bb%5D %231.md"].text == "Bananas cost three dollars."
    assert opened["org-chart.png"].content == (folder / "org-chart.png").read_bytes()


def test_prune_removes_from_index_and_storage(azure: Azure, folder: Path, tmp_path: Path) -> None:
    run_command(str(folder), **azure.settings)
    (folder / "org-chart.png").unlink()
    pruned = run_command(str(folder), "--prune", **azure.settings)
    docs = azure.search.indexes["docs"].docs.values()
    lost = {"id": "x", "content": "x", "sourcepage": "org-chart.png", "sourcefile": "org-chart.png"}
    bare: dict[str, Any] = {"category": None, "oids": [], "groups": [], "image": None}

    assert "1 removed" in pruned.stdout
    assert {doc["sourcefile"] for doc in docs} == {"a.md", "%5Bb%5D %231.md"}
    with azure.listening(FakeSearch(docs=[{**lost, **bare}])) as search:
        settings = {**azure.settings, "AZURE_SEARCH_ENDPOINT": search.url}
        with run_server("dev", tmp_path, settings) as server, server.client() as client:
            assert client.get("/content/org-chart.png").status_code == 404


def test_missing_roles_are_named(azure: Azure, folder: Path) -> None:
    azure.search.plan += [[b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n"]]
    done = run_command(str(folder), **azure.settings)

    assert done.returncode == 1
    assert "Search Index Data Contributor" in done.stderr
    assert "Traceback" not in done.stderr


def test_indexer_rejects_folder_with_rules(azure: Azure, folder: Path) -> None:
    write(folder, "acl.yaml", "a.md: {groups: [board]}")
    storage = "/subscriptions/1/resourceGroups/r/providers/Microsoft.Storage/storageAccounts/s"
    count = len(azure.search.requests)
    done = run_command(str(folder), "--indexer", "--storage", storage, **azure.settings)

    assert done.returncode == 1
    assert "every passage would be public" in done.stderr
    assert len(azure.search.requests) == count


def test_restricted_folder_is_rejected_beside_indexer_passages(azure: Azure, folder: Path) -> None:
    settings = {**azure.settings, "AZURE_SEARCH_INDEX": "mixed"}
    run_command(str(folder), **settings)
    index = azure.search.indexes["mixed"]
    empty = {one["name"]: None for one in index.definition["fields"]}
    index.docs["f_0"] = {**empty, "id": "f_0", "sourcefile": "a.md", "parent": "f"}
    write(folder, "acl.yaml", "a.md: {groups: [board]}")
    done = run_command(str(folder), **settings)

    assert done.returncode == 1
    assert "one of a.md: they may stay for everyone" in done.stderr
    assert not any(doc["groups"] for doc in index.docs.values())


def test_folder_without_its_former_rules_uploads_nothing(azure: Azure, folder: Path) -> None:
    settings = {**azure.settings, "AZURE_SEARCH_INDEX": "lost", "AZURE_STORAGE_CONTAINER": "lost"}
    write(folder, "acl.yaml", "a.md: {groups: [board]}")
    run_command(str(folder), **settings)
    (folder / "acl.yaml").unlink()
    write(folder, "new.md", "New.")
    done = run_command(str(folder), **settings)

    assert done.returncode == 1
    assert "the index restricts files of this folder (1, such as a.md)" in done.stderr
    assert asyncio.run(uploaded(azure)) == {"a.md", "[b] #1.md", "org-chart.png"}


async def uploaded(azure: Azure) -> set[str]:
    """The files in the container `lost`."""
    url = azure.settings["AZURE_STORAGE_ENDPOINT"]
    files = make_uploader(url, "lost", AzuriteCredential(), connection_verify=azure.home.ca)
    try:
        return set(await files.list_names())
    finally:
        await files.close()
        await asyncio.sleep(0.1)  # aiohttp closes TLS a little after it has said so


@pytest.mark.parametrize("fields", ["on-your-data", '{"groups": null}', '{"title": "name"}'])
def test_index_of_other_origin_is_not_written(azure: Azure, folder: Path, fields: str) -> None:
    settings = {**azure.settings, "AZURE_SEARCH_INDEX": "theirs", "AZURE_SEARCH_FIELDS": fields}
    before = len(azure.model.requests)
    runs = [run_command(str(folder), *more, **settings) for more in ((), ("--no-rules",))]

    for done in runs:
        assert done.returncode == 1
        assert "AZURE_SEARCH_FIELDS is for an index made elsewhere" in done.stderr
    assert "theirs" not in azure.search.indexes
    assert len(azure.model.requests) == before


def test_storage_that_is_added_later_gets_all_files(azure: Azure, folder: Path) -> None:
    settings = {**azure.settings, "AZURE_SEARCH_INDEX": "moved"}
    elsewhere = {**settings, "AZURE_STORAGE_CONTAINER": "moved"}
    without = run_command(str(folder), **{**settings, "AZURE_STORAGE_ENDPOINT": ""})
    runs = [run_command(str(folder), **each) for each in (settings, elsewhere, elsewhere)]
    renamed = run_command(str(folder), AZURE_SEARCH_FIELDS='{"content": "chunk"}', **elsewhere)
    put = [each.stdout.count("3 documents put") for each in (without, *runs, renamed)]

    assert put == [1, 1, 1, 0, 1]
    assert {doc["image"] is None for doc in azure.search.indexes["moved"].docs.values()} == {
        True,
        False,
    }
