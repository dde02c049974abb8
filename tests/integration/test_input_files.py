"""Messages of OpenAI's clients that name files: the model gets them whole, if they fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain.events import Delta, Done
from shared.http.auth import AccessPolicy
from shared.protocols.exchange import App
from shared.protocols.openai.input_files import LEFT_OUT, MAX_FILES, NOT_SEARCHED
from shared.protocols.openai.models import TaskModelsConfig
from shared.protocols.upload_form import UploadsConfig
from shared.rag.documents import MAX_TOKENS, NOT_WHOLE
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.uploads.base import UploadLimits
from shared.uploads.retriever import UploadsRetriever
from tests.support.calls import ANNA, BEN, JSON, BufferedReply, ask, call, local_service
from tests.support.fakes import PLUS, STANDARD, FakeModel, make_rag
from tests.support.uploads import UploadsFolder

LIMITS = UploadLimits(file_bytes=1_000_000, files=100)
QUESTION = "Which animals are there?"
SECTIONS = [f"The animal number {number} is a quokka." for number in range(40)]
TEXT = "\n\n".join(f"# Chapter {n}\n\n{text} {'word ' * 120}" for n, text in enumerate(SECTIONS))
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


class Files:
    """An app whose model is a fake, over uploads in a folder."""

    def __init__(self, root: Path) -> None:
        self.uploads = UploadsFolder(root, LIMITS)
        self.model = FakeModel((Delta("Many."), Done()), max_prompt_tokens=100_000)
        self.access = AccessPolicy(sign_in=True)
        self.shared = SqliteRetriever(())

    @property
    def app(self) -> App:
        uploads = self.uploads
        retriever: Any = UploadsRetriever(self.shared, uploads.passages, uploads.store)
        rag = make_rag(self.model, retriever)
        return local_service(rag, self.access, configs=(UploadsConfig(self.uploads.store),))

    def add(self, owner: str, name: str, text: str) -> str:
        id = self.uploads.add(owner, name, text).id
        self.uploads.run()
        return id

    def ask(self, route: str, *ids: str, headers: dict[str, str] = ANNA) -> BufferedReply:
        """The reply to a question about files."""
        return ask(call(route, body_of(route, *ids), headers), self.app)

    @property
    def prompt(self) -> str:
        """All text that the model got last."""
        messages = self.model.calls[-1].messages
        assert "file" not in {
            part["type"]
            for message in messages
            for part in ((message.raw or {}).get("content") or [])
            if isinstance(part, dict)
        }
        return "\n".join(message.content for message in messages)


def body_of(route: str, *ids: str) -> Any:
    if route == CHAT:
        parts: list[Any] = [{"type": "file", "file": {"file_id": id}} for id in ids]
        parts.append({"type": "text", "text": QUESTION})
        return {"messages": [{"role": "user", "content": parts}]}
    parts = [{"type": "input_file", "file_id": id} for id in ids]
    parts.append({"type": "input_text", "text": QUESTION})
    return {"input": [{"role": "user", "content": parts}]}


def place(route: str, index: int = 0) -> str:
    if route == CHAT:
        return f"messages[0].content[{index}].file.file_id"
    return f"input[0].content[{index}].file_id"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


both = pytest.mark.parametrize("route", [CHAT, RESPONSES])


@both
def test_model_gets_a_named_file_whole_and_in_order(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    answer = files.ask(route, id)
    places = [files.prompt.find(text) for text in SECTIONS]

    assert answer.status == 200
    assert min(places) >= 0
    assert places == sorted(places)


@both
def test_question_without_a_file_gets_passages(files: Files, route: str) -> None:
    files.add("anna", "animals.md", TEXT)
    files.ask(route)

    assert sum(text in files.prompt for text in SECTIONS) < 10


@both
def test_file_too_long_for_the_model_gives_passages(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    answer = files.ask(route, id)

    assert answer.status == 200
    assert 0 < sum(text in files.prompt for text in SECTIONS) < 10
    assert answer.headers["x-chat-notice"].startswith(NOT_WHOLE)


@both
def test_files_of_several_messages_are_named_once_each(files: Files, route: str) -> None:
    ids = [files.add("anna", f"{n}.md", f"# {n}\n\nText number {n}.") for n in range(2)]
    body = body_of(route, *ids)
    key = "messages" if route == CHAT else "input"
    body[key] = [*body[key], {"role": "assistant", "content": "Yes."}, *body_of(route, ids[0])[key]]
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 200
    assert [files.prompt.count(f"Text number {n}.") for n in range(2)] == [1, 1]


@both
def test_file_of_another_user_is_refused_as_a_missing_one(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    answers = [files.ask(route, name, headers=BEN) for name in (id, "upload-aaaaaaaaaaaaaaaa")]
    errors = [answer.json["error"] for answer in answers]

    assert [answer.status for answer in answers] == [400, 400]
    assert str(errors[0]).replace(id, "upload-aaaaaaaaaaaaaaaa") == str(errors[1])
    assert errors[0]["param"] == place(route)
    assert files.model.calls == []


@both
def test_file_that_is_not_processed_is_refused(files: Files, route: str) -> None:
    broken = files.add("anna", "broken.md", "broken")
    queued = files.uploads.add("anna", "later.md", "text").id
    messages = [files.ask(route, id).json["error"]["message"] for id in (queued, broken)]

    assert "not processed yet" in messages[0]
    assert messages[1].endswith("could not be read: It is damaged.")
    assert files.model.calls == []


@both
def test_too_many_files_are_refused(files: Files, route: str) -> None:
    texts = [f"# {n}\n\nText {n}." for n in range(MAX_FILES + 1)]
    ids = [files.uploads.add("anna", f"{n}.md", text).id for n, text in enumerate(texts)]
    files.uploads.run()
    answer = files.ask(route, *ids)

    assert answer.status == 400
    assert answer.json["error"]["param"] == place(route, MAX_FILES)
    assert files.ask(route, *ids[:MAX_FILES]).status == 200


@both
def test_caller_without_an_owner_is_refused(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.access = AccessPolicy()

    assert files.ask(route, id, headers=JSON).status == 403


@both
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
        (
            CHAT,
            {"type": "file", "file": {"filename": "a.md", "file_data": "data:text/plain;,x"}},
            f"{CHAT_FILE}.file_data",
        ),
        (CHAT, {"type": "file"}, f"{CHAT_FILE}.file_id"),
        (CHAT, {"type": "file", "file": {}}, f"{CHAT_FILE}.file_id"),
        (
            RESPONSES,
            {"type": "input_file", "filename": "a.md", "file_data": "data:text/plain;,x"},
            f"{RESPONSES_FILE}.file_data",
        ),
        (
            RESPONSES,
            {"type": "input_file", "file_id": "x", "file_url": "https://example.com/a.pdf"},
            f"{RESPONSES_FILE}.file_url",
        ),
    ],
)
def test_file_inside_of_a_request_is_refused(route: str, part: dict[str, Any], param: str) -> None:
    body = body_of(route, "x")
    (message,) = body["messages" if route == CHAT else "input"]
    message["content"][0] = part
    error = ask(call(route, body)).json["error"]

    assert error["param"] == param


@both
def test_files_with_the_same_text_are_both_whole(files: Files, route: str) -> None:
    ids = [files.add("anna", f"{n}.md", "# A\n\nThe same text.") for n in range(2)]
    files.ask(route, *ids)

    assert all(f"{id}/{n}.md: " in files.prompt for n, id in enumerate(ids))


@both
def test_long_file_is_searched_apart_from_others(files: Files, route: str) -> None:
    files.shared = SqliteRetriever([replace(PLUS, content="Which animals are there? Quokkas.")])
    for number in range(60):
        files.uploads.add("anna", f"{number}.md", f"# {number}\n\nAnimals {number} are there.")
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    files.ask(route, id)

    assert sum(text in files.prompt for text in SECTIONS) > 1


def test_long_file_is_found_outside_of_the_category_of_the_search(files: Files) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    search = {"type": "file_search", "vector_store_ids": ["docs"]}
    only = {"filters": {"type": "eq", "key": "category", "value": "plans"}}
    body = {**body_of(RESPONSES, id), "tools": [{**search, **only}]}
    body = json.loads(json.dumps(body).replace(QUESTION, "What is number 35?"))
    ask(call(RESPONSES, body, ANNA), files.app)

    assert SECTIONS[35] in files.prompt


@both
def test_long_file_without_a_word_of_the_question_gives_its_beginning(
    files: Files, route: str
) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.model.max_prompt_tokens = 2000
    body = json.loads(json.dumps(body_of(route, id)).replace(QUESTION, "Zusammenfassung?"))
    ask(call(route, body, ANNA), files.app)

    assert SECTIONS[0] in files.prompt


@both
def test_short_file_is_whole_beside_a_long_one(files: Files, route: str) -> None:
    long = files.add("anna", "animals.md", TEXT)
    short = files.add("anna", "short.md", "# Short\n\nThe first.\n\n# More\n\nThe second.")
    files.model.max_prompt_tokens = 2000
    files.ask(route, long, short)

    assert "The first." in files.prompt
    assert "The second." in files.prompt


@both
def test_more_tokens_than_the_limit_are_not_whole(files: Files, route: str) -> None:
    text = "\n\n".join(f"# {n}\n\n{f'word{n} ' * 300}" for n in range(MAX_TOKENS // 300 + 1))
    id = files.add("anna", "long.md", text)
    answer = files.ask(route, id)

    assert answer.headers["x-chat-notice"].startswith(NOT_WHOLE)


HISTORY = [
    {"role": "user", "content": "My name is Ada." + " word" * 70},
    {"role": "assistant", "content": "Hello."},
]


@both
def test_conversation_has_room_beside_a_file(files: Files, route: str) -> None:
    files.shared = SqliteRetriever([PLUS, replace(STANDARD, content="dental " * 345)])
    words = " ".join(f"word-{number}" for number in range(200))
    id = files.add("anna", "animals.md", f"# Animals\n\n{words}")
    files.model.max_prompt_tokens = 600
    body, key = body_of(route, id), "messages" if route == CHAT else "input"
    body[key] = [*HISTORY, *body[key]]
    ask(call(route, body, ANNA), files.app)

    assert "My name is Ada." in files.prompt
    assert "word-7 word-8" in files.prompt


@both
def test_message_with_a_file_alone_is_not_sent(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    body, key = body_of(route, id), "messages" if route == CHAT else "input"
    (question,) = body[key]
    file, text = ({**question, "content": [part]} for part in question["content"])
    body[key] = [text, {"role": "assistant", "content": "Which file?"}, file]
    answer = ask(call(route, body, ANNA), files.app)

    assert answer.status == 200, answer.data
    assert "" not in [message.content for message in files.model.calls[-1].messages]
    assert SECTIONS[-1] in files.prompt


@both
@pytest.mark.parametrize("role", ["system", "assistant"])
def test_file_in_another_message_than_the_users_is_refused(
    files: Files, route: str, role: str
) -> None:
    body, key = body_of(route, "x"), "messages" if route == CHAT else "input"
    (question,) = body[key]
    body[key] = [{**question, "role": role}, {"role": "user", "content": QUESTION}]
    answer = ask(call(route, body, ANNA), files.app)

    assert (answer.status, answer.json["error"]["param"]) == (400, place(route))


@both
def test_missing_file_of_an_earlier_message_is_left_out(files: Files, route: str) -> None:
    id = files.add("anna", "animals.md", TEXT)
    files.uploads.delete("anna", id)
    body, key = body_of(route, id), "messages" if route == CHAT else "input"
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
