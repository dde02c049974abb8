"""An app with uploads in Azure, and what reads them: over Azurite and a fake of Azure AI Search."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from shared.files.blobs import make_container_client
from shared.uploads.blob.queue import make_queue_client
from shared.uploads.blob.requests import CONTAINER
from tests.support.azurite import (
    AzuriteCredential,
    AzuriteHome,
    azurite,
    azurite_queues,
    make_home,
    needs_azurite,
)
from tests.support.search_service import SearchService, make_index
from tests.support.servers import ROOT, SIGN_IN, TIMEOUT, run_server
from tests.support.upload_reader import run_upload_reader
from tests.support.upload_ways import (
    ASKING,
    KEY,
    MCP,
    SECRETS,
    STRANGERS,
    WAYS,
    fill,
    text_of,
)

pytestmark = needs_azurite
ANNA, BEN = ({"x-ms-client-principal-id": name} for name in ("anna", "ben"))
NO_UPLOADS = "were not searched"


@dataclass
class Deployment:
    """An app in Azure with its services."""

    client: httpx.Client
    search: SearchService
    settings: Mapping[str, str]
    files: dict[str, str] = field(default_factory=dict)  # names of documents in citations, by owner

    def upload(self, owner: str, name: str, data: bytes) -> httpx.Response:
        files = [("file", (name, data))]
        return self.client.post("/upload", files=files, headers=signed(owner))

    def uploads_of(self, owner: str) -> list[Any]:
        response = self.client.get("/uploads", headers=signed(owner))
        uploads: list[Any] = response.raise_for_status().json()["uploads"]
        return uploads

    def wait_until(self, owner: str, states: list[str]) -> list[Any]:
        """Wait until a user's uploads have these states."""
        end = time.monotonic() + TIMEOUT
        uploads = self.uploads_of(owner)
        while [each["state"] for each in uploads] != states:
            assert time.monotonic() < end, uploads
            time.sleep(0.1)
            uploads = self.uploads_of(owner)
        return uploads

    def ask(self, owner: str) -> Any:
        response = self.client.post("/chat", json=ASKING, headers=signed(owner))
        return response.raise_for_status().json()

    def indexed(self) -> set[str]:
        """The texts in the index of uploads."""
        return {doc["content"] for doc in self.search.indexes["documents-uploads"].docs.values()}


def signed(owner: str) -> dict[str, str]:
    return {"x-ms-client-principal-id": owner}


async def create_container_and_queue(home: AzuriteHome, blobs: str, queues: str) -> None:
    options: dict[str, Any] = {"connection_verify": home.ca}
    credential = AzuriteCredential()
    async with (
        make_container_client(blobs, CONTAINER, credential, **options) as container,
        make_queue_client(queues, credential, **options) as queue,
    ):
        await container.create_container()
        await queue.create_queue()


@pytest.fixture(scope="module")
def deployment(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """An app and its reader; Anna and Ben have uploaded files of one name."""
    folder = tmp_path_factory.mktemp("azure")
    home = make_home(folder)
    search = SearchService(indexes={"documents": make_index(), "documents-uploads": make_index()})
    with ExitStack() as stack:
        blobs, queues = (stack.enter_context(run(home)) for run in (azurite, azurite_queues))
        asyncio.run(create_container_and_queue(home, blobs, queues))
        settings = {
            **SIGN_IN,
            "CHAT_MODEL": "demo",
            "CHAT_API_KEY": KEY,
            "AZURE_SEARCH_ENDPOINT": stack.enter_context(home.listening(search)).url,
            "AZURE_SEARCH_INDEX": "documents",
            "UPLOADS": "on",
            "AZURE_UPLOADS_ENDPOINT": blobs,
            "AZURE_UPLOADS_QUEUE_ENDPOINT": queues,
            "AZURE_UPLOADS_INDEX": "documents-uploads",
            "SSL_CERT_FILE": home.ca,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        }
        server = stack.enter_context(run_server(kind, folder, settings))
        stack.enter_context(run_upload_reader(folder, settings))
        deployment = Deployment(stack.enter_context(server.client()), search, settings)
        for owner in SECRETS:
            response = deployment.upload(owner, "badge.md", text_of(owner))
            assert response.status_code in (200, 202), response.text
            (upload,) = deployment.wait_until(owner, ["ready"])
            deployment.files[owner] = f"{upload['id']}/badge.md"
        yield deployment


def send(deployment: Deployment, way: tuple[str, Any], headers: dict[str, str], file: str) -> str:
    """Request what a way leads to. Returns the body."""
    path, body = fill(way, file)
    url = way[0].partition("{")[0] + path + way[0].partition("}")[2]
    sent = {name: text for name, text in headers.items() if name != "content-type"}
    if body is None:
        return deployment.client.get(url, headers=sent).text
    return deployment.client.post(url, json=body, headers=sent | MCP).text


@pytest.mark.parametrize("owner", ["anna", "ben"])
@pytest.mark.parametrize("way", WAYS)
def test_owner_finds_the_own_document_alone(
    deployment: Deployment, way: tuple[str, Any], owner: str
) -> None:
    (other,) = SECRETS.keys() - {owner}
    text = send(deployment, way, signed(owner), deployment.files[owner])

    assert SECRETS[owner] in text
    assert SECRETS[other] not in text
    assert deployment.files[other] not in text


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("way", WAYS)
def test_nobody_else_finds_a_document(
    deployment: Deployment, way: tuple[str, Any], stranger: str
) -> None:
    file = deployment.files["anna"]
    text = send(deployment, way, STRANGERS[stranger], file)

    assert SECRETS["anna"] not in text
    assert text.count(file) <= ("fetch" in str(way) or "resources" in str(way))  # in an error


def test_citation_opens_the_file_for_its_owner(deployment: Deployment) -> None:
    citation = deployment.ask("anna")["context"]["data_points"]["citations"][0]
    own = deployment.client.get(f"/content/{citation}", headers=ANNA)
    other = deployment.client.get(f"/content/{citation}", headers=BEN)

    assert own.content == text_of("anna")
    assert other.status_code == 404


def test_failed_document_says_why(deployment: Deployment) -> None:
    response = deployment.upload("carl", "scan.pdf", b"%PDF-1.4 no pages")
    (upload,) = deployment.uploads_of("carl")

    assert response.status_code == 422
    assert upload["state"] == "failed"
    assert upload["reason"]


def test_later_document_of_the_name_replaces_the_earlier_one(deployment: Deployment) -> None:
    for text in (b"# Old\n\nThe old plan.", b"# New\n\nThe new plan."):
        assert deployment.upload("dora", "plan.md", text).status_code in (200, 202)
    deployment.wait_until("dora", ["ready"])
    texts = deployment.indexed()

    assert any("The new plan." in text for text in texts)
    assert not any("The old plan." in text for text in texts)


def test_deleted_document_is_hidden_at_once_and_then_removed(deployment: Deployment) -> None:
    deployment.upload("emil", "secret.md", b"# Secret\n\nThe word is axolotl.")
    (upload,) = deployment.wait_until("emil", ["ready"])
    assert "axolotl" in str(deployment.ask("emil"))
    response = deployment.client.delete(f"/uploads/{upload['id']}", headers=signed("emil"))

    assert response.status_code == 204
    assert deployment.uploads_of("emil") == []
    assert "axolotl" not in str(deployment.ask("emil"))
    end = time.monotonic() + TIMEOUT
    while any("axolotl" in text for text in deployment.indexed()):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_refused_index_of_uploads_leaves_the_answer(deployment: Deployment) -> None:
    deployment.search.refused.add("documents-uploads")
    try:
        answer = deployment.ask("anna")
    finally:
        deployment.search.refused.clear()

    assert NO_UPLOADS in str(answer["context"])
    assert SECRETS["anna"] not in str(answer)
    assert SECRETS["anna"] in str(deployment.ask("anna"))


def test_health_checks_the_uploads(deployment: Deployment) -> None:
    assert deployment.client.get("/health").json()["uploads"] == "blobs"


def test_page_offers_uploads_to_who_has_signed_in(deployment: Deployment) -> None:
    config = {
        name: deployment.client.get("/config", headers=headers).json()["uploads"]
        for name, headers in {"anna": ANNA, "nobody": {}}.items()
    }

    assert config == {"anna": True, "nobody": False}


def test_person_is_forgotten_by_a_command(deployment: Deployment) -> None:
    deployment.upload("fay", "a.md", b"# A\n\nThe word is okapi.")
    deployment.wait_until("fay", ["ready"])
    counted, deleted = forget(deployment, "fay"), forget(deployment, "fay", "--yes")

    assert counted.stdout.startswith("1 uploads of fay are stored."), counted
    assert deleted.stdout.startswith("1 uploads of fay are deleted."), deleted
    assert "the reader of uploads removes their files" in deleted.stderr
    assert deployment.uploads_of("fay") == []
    assert SECRETS["anna"] in str(deployment.ask("anna"))


def forget(deployment: Deployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command, never over the stores of this folder's settings."""
    none = {"MEMORY_FILE": "", "AZURE_COSMOS_ENDPOINT": ""}
    return subprocess.run(
        [sys.executable, "-m", "scripts.forget", *arguments],
        cwd=ROOT,
        env={**os.environ, **deployment.settings, **none},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
