"""OpenAI's files: the real client brings a document over HTTP, asks about it, and deletes it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.support.openai_clients import PREFIXES, connect
from tests.support.servers import HOSTS, Server, run_server

BADGE = b"# Badges\n\nThe animal on the secret badge is the quokka."
BADGE_URL = f"data:text/markdown;base64,{b64encode(BADGE).decode()}"
RESPONSE: Any = {  # the options of a response that tells its sources
    "model": "demo",
    "tools": [{"type": "file_search", "vector_store_ids": ["documents"]}],
    "include": ["file_search_call.results"],
}
QUESTION: Any = [{"role": "user", "content": "Which animal is on the secret badge?"}]


@pytest.fixture(scope="module", params=HOSTS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("files")
    memory = {"MEMORY_FILE": str(folder / "memory.db")}
    settings = {"UPLOADS": "on", "UPLOADS_FOLDER": str(folder / "uploads"), **memory}
    with run_server(request.param, folder, settings) as running:
        yield running


@pytest.fixture(params=PREFIXES)
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client without files."""
    with connect(server, request.param) as client:
        yield client
        for file in client.files.list():
            client.files.delete(file.id)


def create(client: Any, name: str = "badge.md", data: bytes = BADGE) -> Any:
    return client.files.create(file=(name, data), purpose="user_data")


def test_file_is_stored_searched_and_deleted(client: Any) -> None:
    created = create(client)
    ready = client.files.wait_for_processing(created.id, poll_interval=0.1)
    answer = client.chat.completions.create(model="demo", messages=QUESTION)

    assert (created.object, created.filename, created.bytes) == ("file", "badge.md", len(BADGE))
    assert (created.purpose, created.status) == ("user_data", "uploaded")
    assert ready.status == "processed"
    assert "quokka" in answer.choices[0].message.content
    assert client.files.delete(created.id).model_dump() == {
        "id": created.id,
        "object": "file",
        "deleted": True,
    }
    for call in (client.files.retrieve, client.files.delete):
        with pytest.raises(openai.NotFoundError, match="There is no file with the id"):
            call(created.id)
    answer = client.chat.completions.create(model="demo", messages=QUESTION)
    assert "quokka" not in answer.choices[0].message.content


def create_processed(client: Any, data: bytes = BADGE) -> str:
    id = str(create(client, data=data).id)
    client.files.wait_for_processing(id, poll_interval=0.1)
    return id


def test_chat_completion_names_a_file(client: Any) -> None:
    id = create_processed(client)
    parts = [{"type": "file", "file": {"file_id": id}}, {"type": "text", "text": "Summarize it."}]
    answer = client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": parts}]
    )
    (citation, *_) = answer.choices[0].message.context["citations"]

    assert "quokka" in citation["content"]
    with pytest.raises(openai.BadRequestError) as caught:
        parts[0] = {"type": "file", "file": {"file_id": "upload-2"}}
        client.chat.completions.create(model="demo", messages=[{"role": "user", "content": parts}])
    assert caught.value.param == "messages[0].content[0].file.file_id"


def test_chat_completion_contains_a_file(client: Any) -> None:
    file = {"filename": "badge.md", "file_data": BADGE_URL}
    parts = [{"type": "file", "file": file}, {"type": "text", "text": "Summarize it."}]
    messages = [{"role": "user", "content": parts}]
    first = client.chat.completions.create(model="demo", messages=messages)
    messages += [{"role": "assistant", "content": "It is about a badge."}, QUESTION[0]]
    second = client.chat.completions.create(model="demo", messages=messages)

    for answer in (first, second):
        assert "quokka" in answer.choices[0].message.context["citations"][0]["content"]
    assert [file.filename for file in client.files.list()] == ["badge.md"]


def test_file_of_requests_at_once_is_stored_once(client: Any) -> None:
    file = {"filename": "badge.md", "file_data": BADGE_URL}
    parts = [{"type": "file", "file": file}, {"type": "text", "text": "Summarize it."}]
    messages = [{"role": "user", "content": parts}]
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(client.chat.completions.create, model="demo", messages=messages)
            for _ in range(4)
        ]
        answers = [each.result() for each in asked]

    assert all("quokka" in str(each.choices[0].message.context) for each in answers)
    assert len(list(client.files.list())) == 1


def test_response_contains_a_file_and_the_next_one_has_it(client: Any) -> None:
    parts = [
        {"type": "input_file", "filename": "badge.md", "file_data": BADGE_URL},
        {"type": "input_text", "text": "Summarize it."},
    ]
    first = client.responses.create(input=[{"role": "user", "content": parts}], **RESPONSE)
    second = client.responses.create(input="And then?", previous_response_id=first.id, **RESPONSE)

    for response in (first, second):
        assert "quokka" in response.output[0].results[0].text


def test_response_names_a_file_and_the_next_one_has_it(client: Any) -> None:
    id = create_processed(client)
    parts = [{"type": "input_file", "file_id": id}, {"type": "input_text", "text": "Summarize it."}]
    first = client.responses.create(input=[{"role": "user", "content": parts}], **RESPONSE)
    second = client.responses.create(input="And then?", previous_response_id=first.id, **RESPONSE)
    client.files.delete(id)
    third = client.responses.create(input="And then?", previous_response_id=second.id, **RESPONSE)

    for response in (first, second):
        assert "quokka" in response.output[0].results[0].text
    assert "quokka" not in str(third.output[0].results)


def test_file_that_cannot_be_read_has_the_reason(client: Any) -> None:
    created = create(client, "fake.pdf", b"text")
    failed = client.files.wait_for_processing(created.id, poll_interval=0.1)

    assert failed.status == "error"
    assert failed.status_details == "Its content is not what its name says."


def test_list_comes_in_pages_the_newest_first(client: Any) -> None:
    names = [f"{number}.md" for number in range(3)]
    for name in names:
        create(client, name)
    page = client.files.list(limit=2)

    assert [file.filename for file in page.data] == ["2.md", "1.md"]
    assert page.has_more
    assert [file.filename for file in client.files.list(limit=2)] == names[::-1]
    assert [file.filename for file in client.files.list(order="asc")] == names
    assert list(client.files.list(purpose="batch")) == []


def test_files_of_one_name_stay_beside_each_other(client: Any) -> None:
    created = [create(client) for _ in range(2)]
    for each in created:
        client.files.wait_for_processing(each.id, poll_interval=0.1)

    assert {file.id for file in client.files.list()} == {each.id for each in created}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"file": ("a.md", b"x"), "purpose": "batch"}, "purpose: must be user_data"),
        (
            {
                "file": ("a.md", b"x"),
                "purpose": "user_data",
                "expires_after": {"anchor": "created_at", "seconds": 3600},
            },
            "expires_after",
        ),
        ({"file": ("..", b"x"), "purpose": "user_data"}, "file: must have a file name"),
    ],
)
def test_wrong_request_is_refused_with_its_field(
    client: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=message):
        client.files.create(**arguments)
    assert list(client.files.list()) == []


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"limit": "0000000011"}, "limit"),
        ({"after": "x"}, "after"),
        ({"order": "newest"}, "order"),
    ],
)
def test_wrong_page_is_refused_with_its_field(
    client: Any, query: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.files.list(**query)
    assert caught.value.param == param


def test_two_files_in_a_form_are_refused(server: Server) -> None:
    with server.client() as http:
        files = [("file", ("a.md", b"x")), ("file", ("b.md", b"x"))]
        answer = http.post("/v1/files", files=files, data={"purpose": "user_data"})
        left = http.get("/v1/files").json()["data"]

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "file"
    assert left == []
