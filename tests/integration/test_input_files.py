"""Messages of OpenAI's clients that name files: the model gets them whole, if they fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.domain.events import Delta, Done
from shared.http.auth import AccessPolicy
from shared.protocols.exchange import App
from shared.protocols.openai.input_files import MAX_FILES
from shared.protocols.upload_form import UploadsConfig
from shared.rag.documents import NOT_WHOLE
from shared.uploads.base import UploadLimits
from tests.support.calls import ANNA, BEN, JSON, BufferedReply, ask, call, local_service
from tests.support.fakes import FakeModel, make_rag
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

    @property
    def app(self) -> App:
        rag: Any = make_rag(self.model, self.uploads.retriever)  # type: ignore[arg-type]
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
    assert errors[0] == errors[1]
    assert errors[0]["param"] == place(route)
    assert files.model.calls == []


@both
def test_file_that_is_not_processed_is_refused(files: Files, route: str) -> None:
    broken = files.add("anna", "broken.md", "broken")
    queued = files.uploads.add("anna", "later.md", "text").id
    messages = [files.ask(route, id).json["error"]["message"] for id in (queued, broken)]

    assert "not processed yet" in messages[0]
    assert messages[1].endswith("could not be read: It is damaged.")


@both
def test_too_many_files_are_refused(files: Files, route: str) -> None:
    ids = [files.uploads.add("anna", f"{n}.md", f"# {n}\n\nText {n}.").id for n in range(21)]
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


@pytest.mark.parametrize(
    ("route", "part"),
    [
        (CHAT, {"type": "file", "file": {"filename": "a.md", "file_data": "data:text/plain;,x"}}),
        (CHAT, {"type": "file"}),
        (RESPONSES, {"type": "input_file", "filename": "a.md", "file_data": "data:text/plain;,x"}),
        (RESPONSES, {"type": "input_file", "file_url": "https://example.com/a.pdf"}),
    ],
)
def test_file_inside_of_a_request_is_refused(route: str, part: dict[str, Any]) -> None:
    body = body_of(route, "x")
    (message,) = body["messages" if route == CHAT else "input"]
    message["content"][0] = part
    error = ask(call(route, body)).json["error"]

    assert error["param"] == place(route)
    assert "POST /v1/files" in error["message"]
