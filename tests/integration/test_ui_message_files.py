"""Documents in messages of the AI SDK: they become uploads of the user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain.events import Source
from shared.http.auth import AccessPolicy
from shared.protocols.message_files import LEFT_OUT
from shared.retrieval.sqlite.retriever import SqliteRetriever
from tests.support.calls import ANNA, BEN, JSON, PNG_URL, ask, call
from tests.support.input_files import QUESTION, SECTIONS, Files
from tests.support.stores import sqlite_memory
from tests.support.ui_message_files import (
    IMAGE,
    ROUTE,
    answer,
    document,
    events_of,
    message,
    names,
    question,
)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, reads=True)


def data_of(events: list[Any], kind: str) -> list[Any]:
    return [event["data"] for event in events if event["type"] == kind]


def test_model_gets_a_document_whole_and_the_answer_has_its_sources(files: Files) -> None:
    events = answer(files, question(document()))
    (upload,) = files.uploads.uploads_of("anna")
    sources = [event for event in events if event["type"] == "source-url"]

    assert all(text in files.prompt for text in SECTIONS)
    assert upload.name == "animals.md"
    assert sources[0]["sourceId"].startswith(f"{upload.id}/animals.md")
    assert sources[0]["url"].startswith(f"/content/{upload.id}/animals.md")


def test_document_gives_passages_alone_if_none_is_wanted_whole(files: Files) -> None:
    body = {**question(document()), "overrides": {"use_whole_documents": False}}
    events = answer(files, body)

    assert 0 < sum(text in files.prompt for text in SECTIONS) < 10
    assert data_of(events, "data-notice") == []


def test_found_document_is_whole_beside_a_named_one(files: Files) -> None:
    files.shared = SqliteRetriever(
        Source(f"{n}", f"Number {n} of the animals there.", f"a.md#{n}", "a.md") for n in range(20)
    )
    body = {**question(document()), "overrides": {"use_whole_documents": True, "top": 2}}
    answer(files, body)
    texts = [*SECTIONS, *(f"Number {n} of the animals there." for n in range(20))]
    places = [files.prompt.find(text) for text in texts]

    assert min(places) >= 0
    assert places == sorted(places)


@pytest.mark.parametrize("kind", ["", "text/markdown;charset=utf-8", "application/octet-stream"])
def test_type_of_a_document_follows_from_its_name(files: Files, kind: str) -> None:
    answer(files, question(document(kind=kind)))

    assert SECTIONS[0] in files.prompt


def test_document_is_stored_once_in_a_chat(files: Files) -> None:
    body = question(document())
    answer(files, body)
    body["messages"] += [message("assistant", "Many."), message("user", "And then?")]
    answer(files, body)

    assert all(text in files.prompt for text in SECTIONS)
    assert names(files) == ["animals.md"]


def test_deleted_document_of_an_earlier_message_is_not_stored_again(files: Files) -> None:
    body = question(document())
    answer(files, body)
    files.uploads.delete("anna", files.uploads.uploads_of("anna")[0].id)
    body["messages"] += [message("assistant", "Many."), message("user", "And then?")]

    assert data_of(answer(files, body), "data-notice") == [LEFT_OUT]
    assert SECTIONS[0] not in files.prompt
    assert names(files) == []


def test_document_of_an_answer_is_ignored(files: Files) -> None:
    messages = [message("user", "Hello"), message("assistant", "Hi.", document())]
    answer(files, {"messages": [*messages, message("user", "And then?")]})

    assert names(files) == []


def test_message_of_a_document_alone_counts_for_the_question_after_it(files: Files) -> None:
    alone = {"role": "user", "parts": [document()]}
    answer(files, {"messages": [alone, message("user", QUESTION)]})

    assert all(text in files.prompt for text in SECTIONS)
    assert "" not in [each.content for each in files.model.calls[-1].messages]


def test_another_user_does_not_find_a_document(files: Files) -> None:
    answer(files, question(document()))
    answer(files, question(), BEN)

    assert "quokka" not in files.prompt
    assert names(files, "ben") == []


def test_same_document_of_another_user_is_another_upload(files: Files) -> None:
    for headers in (ANNA, BEN):
        answer(files, question(document()), headers)

    assert (names(files), names(files, "ben")) == (["animals.md"], ["animals.md"])
    assert files.uploads.uploads_of("anna")[0].id not in files.prompt


def test_image_beside_a_document_reaches_the_model(files: Files) -> None:
    answer(files, question(IMAGE, document()))

    assert files.model.calls[-1].messages[-1].images == (PNG_URL,)
    assert SECTIONS[0] in files.prompt
    assert names(files) == ["animals.md"]


def test_image_alone_needs_no_owner(files: Files) -> None:
    files.access = AccessPolicy()
    answer(files, question(IMAGE), JSON)

    assert files.model.calls[-1].messages[-1].images == (PNG_URL,)
    assert files.uploads.folders() == set()


@pytest.mark.part("conversations")
def test_question_alone_of_a_stored_conversation_contains_a_document(tmp_path: Path) -> None:
    files = Files(tmp_path / "uploads", reads=True)
    with sqlite_memory(tmp_path) as memory:
        app = replace(files.app, memory=memory)
        first = ask(call(ROUTE, {**question(), "conversation_id": None}, ANNA), app)
        id = events_of(first)[0]["messageMetadata"]["conversation_id"]
        alone = message("user", "And in this one?", document())
        reply = ask(call(ROUTE, {"message": alone, "conversation_id": id}, ANNA), app)

    assert reply.status == 200, reply.data
    assert [QUESTION in files.prompt, SECTIONS[-1] in files.prompt] == [True, True]
