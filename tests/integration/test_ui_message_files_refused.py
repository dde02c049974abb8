"""Documents in messages of the AI SDK that are refused: the sentence names the part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.http.auth import AccessPolicy
from shared.protocols.inline_files import STILL_READ
from shared.protocols.message_files import MAX_FILES
from shared.protocols.upload_form import NO_OWNER, NO_UPLOADS
from tests.support.calls import ANNA, JSON, ask, call
from tests.support.input_files import Files
from tests.support.stores import sqlite_memory
from tests.support.ui_message_files import IMAGE, ROUTE, document, names, question, send

PLACE = "messages[0].parts[0]"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, reads=True)


def test_document_that_cannot_be_read_is_refused_with_the_reason(files: Files) -> None:
    reply = send(files, question(IMAGE, document("bad.md", "broken")))
    reason = "the file 'bad.md' could not be read: It is damaged."

    assert (reply.status, reply.media_type) == (400, "text/plain")
    assert reply.data.decode() == f"messages[0].parts[1].url: {reason}"
    assert files.model.calls == []


def test_document_that_takes_long_is_found_by_the_next_attempt(tmp_path: Path) -> None:
    files = Files(tmp_path, wait_seconds=0)
    first = send(files, question(document()))
    files.uploads.run()
    second = send(files, question(document()))

    assert (first.status, second.status) == (503, 200)
    assert (first.headers["Retry-After"], first.data.decode()) == ("5", STILL_READ)
    assert names(files) == ["animals.md"]


def test_too_many_documents_are_refused_and_none_is_stored(files: Files) -> None:
    parts = [document(f"{n}.md", "The animal is a quokka.") for n in range(MAX_FILES + 1)]
    reply = send(files, question(*parts))

    assert reply.status == 400
    assert reply.data.decode().startswith(f"messages[0].parts[{MAX_FILES}].url: is one file too")
    assert names(files) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"filename": None}, "filename: is required for a file that is no image"),
        ({"filename": ""}, "filename: is required for a file that is no image"),
        ({"filename": "/"}, "filename: must have a file name"),
        ({"filename": 7}, "filename: must be a string"),
        ({"url": None}, "url: must be a data URL in base64"),
        ({"url": "https://example.com/a.pdf"}, "url: must be a data URL in base64"),
        ({"url": "https://example.com/data:;base64,YQ=="}, "url: must be a data URL in base64"),
        ({"url": "data:text/plain,words"}, "url: must be a data URL in base64"),
        ({"url": "data:text/plain;base64,"}, "url: has no content"),
        ({"url": "data:text/plain;base64,!!!!"}, "url: must have the content of a file in base64"),
    ],
)
def test_invalid_document_is_refused_with_its_place(
    files: Files, change: dict[str, Any], sentence: str
) -> None:
    reply = send(files, question({**document(), **change}))

    assert reply.status == 400
    assert reply.data.decode().startswith(f"{PLACE}.{sentence}")
    assert files.uploads.folders() == set()


def test_caller_without_an_owner_is_refused_with_the_place(files: Files) -> None:
    files.access = AccessPolicy()
    reply = send(files, question(document()), JSON)

    assert (reply.status, reply.data.decode()) == (403, f"{PLACE}.url: {NO_OWNER}")
    assert files.uploads.folders() == set()


def test_deployment_without_uploads_refuses_a_document_with_the_place() -> None:
    reply = ask(call(ROUTE, question(document())))

    assert (reply.status, reply.data.decode()) == (400, f"{PLACE}.url: {NO_UPLOADS}")


@pytest.mark.part("conversations")
def test_document_for_a_missing_conversation_is_not_stored(tmp_path: Path) -> None:
    files = Files(tmp_path / "uploads", reads=True)
    with sqlite_memory(tmp_path) as memory:
        app = replace(files.app, memory=memory)
        body = {**question(document()), "conversation_id": "missing"}
        reply = ask(call(ROUTE, body, ANNA), app)

    assert reply.status == 404
    assert names(files) == []
