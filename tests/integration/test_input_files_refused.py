"""Files that messages of OpenAI's clients name, and that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.http.auth import AccessPolicy
from shared.protocols.message_files import LEFT_OUT, MAX_FILES, NOT_SEARCHED
from shared.protocols.openai.models import TaskModelsConfig
from tests.support.calls import ANNA, BEN, JSON, ask, call
from tests.support.input_files import (
    CHAT,
    KEYS,
    QUESTION,
    RESPONSES,
    ROUTES,
    TEXT,
    Files,
    body_of,
    place,
)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize("route", ROUTES)
def test_file_of_another_user_is_refused_as_a_missing_one(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    answers = [files.ask(route, name, headers=BEN) for name in (id, "upload-aaaaaaaaaaaaaaaa")]
    errors = [answer.json["error"] for answer in answers]

    assert [answer.status for answer in answers] == [400, 400]
    assert str(errors[0]).replace(id, "upload-aaaaaaaaaaaaaaaa") == str(errors[1])
    assert errors[0]["param"] == place(route)
    assert files.model.calls == []


@pytest.mark.parametrize("route", ROUTES)
def test_file_that_is_not_processed_is_refused(files: Files, route: str) -> None:
    broken = files.add("anna", "broken.md", "broken")
    queued = files.uploads.add("anna", "later.md", "text").id
    messages = [files.ask(route, id).json["error"]["message"] for id in (queued, broken)]

    assert "not processed yet" in messages[0]
    assert messages[1].endswith("could not be read: It is damaged.")
    assert files.model.calls == []


@pytest.mark.parametrize("route", ROUTES)
def test_too_many_files_are_refused(files: Files, route: str) -> None:
    texts = [f"# {n}\n\nText {n}." for n in range(MAX_FILES + 1)]
    ids = [files.uploads.add("anna", f"{n}.md", text).id for n, text in enumerate(texts)]
    files.uploads.run()
    answer = files.ask(route, *ids)

    assert answer.status == 400
    assert answer.json["error"]["param"] == place(route, MAX_FILES)
    assert files.ask(route, *ids[:MAX_FILES]).status == 200


@pytest.mark.parametrize("route", ROUTES)
def test_caller_without_an_owner_is_refused(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.access = AccessPolicy()
    answer = files.ask(route, id, headers=JSON)

    assert (answer.status, answer.json["error"]["param"]) == (403, place(route))


@pytest.mark.parametrize("route", ROUTES)
def test_deployment_without_uploads_refuses_files(route: str) -> None:
    answer = ask(call(route, body_of(route, "upload-aaaaaaaaaaaaaaaa")))
    error = answer.json["error"]

    assert answer.status == 400
    assert error["param"] == place(route)
    assert "UPLOADS" in error["message"]


CHAT_FILE, RESPONSES_FILE = "messages[0].content[0].file", "input[0].content[0]"


@pytest.mark.parametrize(
    ("route", "part", "param"),
    [
        (CHAT, {"type": "file"}, f"{CHAT_FILE}.file_id"),
        (CHAT, {"type": "file", "file": {}}, f"{CHAT_FILE}.file_id"),
        (
            RESPONSES,
            {"type": "input_file", "file_id": "x", "file_url": "https://example.com/a.pdf"},
            f"{RESPONSES_FILE}.file_url",
        ),
    ],
)
def test_part_that_names_no_file_is_refused(route: str, part: dict[str, Any], param: str) -> None:
    body = body_of(route, "x")
    (message,) = body[KEYS[route]]
    message["content"][0] = part
    error = ask(call(route, body)).json["error"]

    assert error["param"] == param


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("role", ["system", "assistant"])
def test_file_in_another_message_than_the_users_is_refused(
    files: Files, route: str, role: str
) -> None:
    body, key = body_of(route, "x"), KEYS[route]
    (question,) = body[key]
    body[key] = [{**question, "role": role}, {"role": "user", "content": QUESTION}]
    answer = ask(call(route, body, ANNA), files.app)

    assert (answer.status, answer.json["error"]["param"]) == (400, place(route))


@pytest.mark.parametrize("route", ROUTES)
def test_missing_file_of_an_earlier_message_is_left_out(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.uploads.delete("anna", id)
    body, key = body_of(route, id), KEYS[route]
    more = [{"role": "assistant", "content": "Many."}, {"role": "user", "content": "And then?"}]
    body[key] = [*body[key], *more]
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 200
    assert LEFT_OUT in answer.headers["x-chat-notice"]


def test_model_without_a_search_says_that_files_are_left_out(files: Files) -> None:
    app = replace(files.app, configs=(TaskModelsConfig(True), *files.app.configs))
    body = {**body_of(CHAT, "x"), "model": "fake-no-search"}
    answer = ask(call(CHAT, body, ANNA), app)

    assert answer.status == 200, answer.data
    assert NOT_SEARCHED in answer.headers["x-chat-notice"]
