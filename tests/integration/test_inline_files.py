"""Files inside of OpenAI's messages: they become uploads of the user, and the model gets them."""

from __future__ import annotations

from base64 import encodebytes
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.http.auth import AccessPolicy
from shared.protocols.message_files import LEFT_OUT, MAX_FILES, NOT_SEARCHED
from shared.protocols.openai.models import TaskModelsConfig
from tests.support.calls import ANNA, JSON, ask, call
from tests.support.input_files import (
    CHAT,
    KEYS,
    RESPONSES,
    ROUTES,
    SECTIONS,
    TEXT,
    Files,
    inline_body,
)

ANIMALS = ("animals.md", TEXT.encode())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, reads=True)


def names(files: Files) -> list[str]:
    return [upload.name for upload in files.uploads.uploads_of("anna")]


def place(route: str, name: str, index: int = 0) -> str:
    """Where the body has a field of a file."""
    file = ".file" if route == CHAT else ""
    return f"{KEYS[route]}[0].content[{index}]{file}.{name}"


@pytest.mark.parametrize("route", ROUTES)
def test_model_gets_a_file_inside_of_the_message_whole(files: Files, route: str) -> None:
    answer = ask(call(route, inline_body(route, ANIMALS), ANNA), files.app)

    assert answer.status == 200, answer.data
    assert all(text in files.prompt for text in SECTIONS)
    assert names(files) == ["animals.md"]


@pytest.mark.parametrize("route", ROUTES)
def test_base64_without_the_start_of_a_data_url_is_accepted(files: Files, route: str) -> None:
    body = inline_body(route, ANIMALS)
    part = body[KEYS[route]][0]["content"][0]
    part = part["file"] if route == CHAT else part
    part["file_data"] = encodebytes(TEXT.encode()).decode()  # with line breaks

    assert ask(call(route, body, ANNA), files.app).status == 200
    assert SECTIONS[0] in files.prompt


@pytest.mark.parametrize("route", ROUTES)
def test_file_is_stored_once_in_a_conversation(files: Files, route: str) -> None:
    body, key = inline_body(route, ANIMALS), KEYS[route]
    ask(call(route, body, ANNA), files.app)
    more = [{"role": "assistant", "content": "Many."}, {"role": "user", "content": "And then?"}]
    body[key] = [*body[key], *more]
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 200
    assert all(text in files.prompt for text in SECTIONS)
    assert names(files) == ["animals.md"]


@pytest.mark.parametrize("route", ROUTES)
def test_deleted_file_of_an_earlier_message_is_not_stored_again(files: Files, route: str) -> None:
    body, key = inline_body(route, ANIMALS), KEYS[route]
    ask(call(route, body, ANNA), files.app)
    (upload,) = files.uploads.uploads_of("anna")
    files.uploads.delete("anna", upload.id)
    more = [{"role": "assistant", "content": "Many."}, {"role": "user", "content": "And then?"}]
    body[key] = [*body[key], *more]
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 200
    assert LEFT_OUT in answer.headers["x-chat-notice"]
    assert names(files) == []


@pytest.mark.parametrize("route", ROUTES)
def test_other_content_of_the_same_name_is_another_file(files: Files, route: str) -> None:
    for text in ("The animal is a quokka.", "The animal is a numbat."):
        ask(call(route, inline_body(route, ("a.md", text.encode())), ANNA), files.app)
        assert text in files.prompt

    assert names(files) == ["a.md", "a.md"]


@pytest.mark.parametrize("route", ROUTES)
def test_file_that_cannot_be_read_is_refused_with_the_reason(files: Files, route: str) -> None:
    answer = ask(call(route, inline_body(route, ("bad.md", b"broken")), ANNA), files.app)
    error = answer.json["error"]

    assert answer.status == 400
    assert error["param"] == place(route, "file_data")
    assert error["message"].endswith("the file 'bad.md' could not be read: It is damaged.")
    assert files.model.calls == []


@pytest.mark.parametrize("route", ROUTES)
def test_file_that_failed_is_read_again_when_it_is_sent_again(tmp_path: Path, route: str) -> None:
    files = Files(tmp_path, reads=True)
    files.uploads.max_pages = 1
    first = ask(call(route, inline_body(route, ANIMALS), ANNA), files.app)
    files.uploads.max_pages = 100
    second = ask(call(route, inline_body(route, ANIMALS), ANNA), files.app)

    assert (first.status, second.status) == (400, 200)
    assert names(files) == ["animals.md"]


@pytest.mark.parametrize("route", ROUTES)
def test_file_that_takes_long_is_found_by_the_next_attempt(tmp_path: Path, route: str) -> None:
    files = Files(tmp_path, wait_seconds=0)
    first = ask(call(route, inline_body(route, ANIMALS), ANNA), files.app)
    files.uploads.run()
    second = ask(call(route, inline_body(route, ANIMALS), ANNA), files.app)

    assert (first.status, second.status) == (503, 200)
    assert first.headers["Retry-After"] == "5"
    assert "still being read" in first.json["error"]["message"]
    assert names(files) == ["animals.md"]


@pytest.mark.parametrize("route", ROUTES)
def test_model_without_a_search_stores_nothing(files: Files, route: str) -> None:
    app = replace(files.app, configs=(TaskModelsConfig(True), *files.app.configs))
    body = {**inline_body(route, ANIMALS), "model": "fake-no-search"}
    answer = ask(call(route, body, ANNA), app)

    assert answer.status == 200, answer.data
    assert NOT_SEARCHED in answer.headers["x-chat-notice"]
    assert names(files) == []


@pytest.mark.parametrize("route", ROUTES)
def test_too_many_files_are_refused_and_none_is_stored(files: Files, route: str) -> None:
    many = [(f"{n}.md", b"The animal is a quokka.") for n in range(MAX_FILES + 1)]
    answer = ask(call(route, inline_body(route, *many), ANNA), files.app)

    assert answer.status == 400
    assert answer.json["error"]["param"] == place(route, "file_data", MAX_FILES)
    assert names(files) == []


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"file_data": "data:text/plain,words"}, "file_data"),
        ({"file_data": "!!!!"}, "file_data"),
        ({"file_data": ""}, "file_id"),
        ({"filename": None}, "filename"),
        ({"filename": "/"}, "filename"),
        ({"file_data": "data:text/plain;base64,"}, "file_data"),
        ({"file_id": "upload-aaaaaaaaaaaaaaaa"}, "file_data"),
        ({"file_url": "https://example.com/a.pdf"}, "file_url"),
        ({"file_data": 1}, "file_data"),
    ],
)
def test_invalid_file_is_refused_with_its_place(
    files: Files, route: str, change: dict[str, Any], param: str
) -> None:
    body = inline_body(route, ANIMALS)
    part = body[KEYS[route]][0]["content"][0]
    (part["file"] if route == CHAT else part).update(change)
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 400
    assert answer.json["error"]["param"] == place(route, param)
    assert names(files) == []


@pytest.mark.parametrize("route", ROUTES)
def test_caller_without_an_owner_stores_nothing(files: Files, route: str) -> None:
    files.access = AccessPolicy()
    answer = ask(call(route, inline_body(route, ANIMALS), JSON), files.app)

    assert (answer.status, answer.json["error"]["param"]) == (403, place(route, "file_data"))
    assert files.uploads.folders() == set()


@pytest.mark.parametrize("route", [CHAT, RESPONSES])
def test_deployment_without_uploads_refuses_a_file(route: str) -> None:
    answer = ask(call(route, inline_body(route, ANIMALS)))

    assert answer.status == 400
    assert answer.json["error"]["param"] == place(route, "file_data")
