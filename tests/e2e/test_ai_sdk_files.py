"""Documents that the chat of the AI SDK sends, unchanged, in its versions 5, 6 and 7."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import sample_files
from tests.support.node import needs_packages, run_script
from tests.support.servers import HOSTS, Server, run_server

pytestmark = needs_packages
PAGES = (
    "The cover of the handbook of badges.",
    "The animal on the secret badge is the quokka.",
    "The plant on the secret badge is the banksia.",
)
BADGE = b64encode(sample_files.pdf([sample_files.lines(page) for page in PAGES])).decode()
PDF = "application/pdf"


@pytest.fixture(scope="module", params=HOSTS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The app as `make run UPLOADS=on` serves it, over the samples."""
    folder = tmp_path_factory.mktemp("documents")
    settings = {"UPLOADS": "on", "UPLOADS_FOLDER": str(folder / "uploads")}
    with run_server(request.param, folder, settings) as running:
        yield running


@pytest.fixture(params=["ai5", "ai6", "ai"])
def package(request: pytest.FixtureRequest, server: Server) -> Iterator[str]:
    """The npm package, by its name in tests/clients, of a user without uploads."""
    yield str(request.param)
    with server.client() as client:
        for upload in client.get("/uploads").json()["uploads"]:
            client.delete(f"/uploads/{upload['id']}").raise_for_status()


def run(server: Server, package: str, scenario: str, **more: str) -> Any:
    """What the chat saw that sent the handbook; `more` are fields of its part."""
    part = {"type": "file", "mediaType": PDF, "url": f"data:{PDF};base64,{BADGE}", **more}
    return run_script("ui_message_stream.mjs", server.url, package, scenario, json.dumps(part))


def uploads_of(server: Server) -> list[Any]:
    with server.client() as client:
        return list(client.get("/uploads").json()["uploads"])


def check_cites(answer: Any, word: str, page: str) -> None:
    """Check that an answer quotes a page of an upload, and links it."""
    text = "".join(part["text"] for part in answer["parts"] if part["type"] == "text")
    links = {p["sourceId"]: p["url"] for p in answer["parts"] if p["type"] == "source-url"}

    assert word in text
    assert f"[{page}]" in text
    assert links[page] == f"/content/{page}"


def test_answers_cite_the_pages_of_a_document(server: Server, package: str) -> None:
    seen = run(server, package, "documents", filename="badge.pdf")
    (upload,) = uploads_of(server)
    _, first, _, second = seen["messages"]

    assert (seen["status"], seen["statuses"], seen["errors"]) == ("ready", [200, 200], [])
    assert seen["requests"][1]["messages"][0]["parts"][0]["filename"] == "badge.pdf"
    check_cites(first, "quokka", f"{upload['id']}/badge.pdf#page=2")
    check_cites(second, "banksia", f"{upload['id']}/badge.pdf#page=3")


def test_document_may_be_among_the_parts_of_a_message(server: Server, package: str) -> None:
    seen = run(server, package, "documentInParts", filename="badge.pdf")
    (upload,) = uploads_of(server)

    assert (seen["status"], seen["errors"]) == ("ready", [])
    check_cites(seen["messages"][-1], "quokka", f"{upload['id']}/badge.pdf#page=2")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({}, "messages[0].parts[0].filename: is required for a file that is no image"),
        (
            {"filename": "badge.docx"},
            "messages[0].parts[0].url: the file 'badge.docx' could not be read: Its content is not "
            "what its name says.",
        ),
    ],
    ids=["no name", "another name"],
)
def test_refusal_is_a_sentence(
    server: Server, package: str, more: dict[str, str], sentence: str
) -> None:
    seen = run(server, package, "documentInParts", **more)

    assert (seen["status"], seen["statuses"]) == ("error", [400])
    assert [error.startswith(sentence) for error in seen["errors"]] == [True]
