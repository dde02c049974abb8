"""Request bodies: forms with images, limits, and the access log's query strings."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from shared.domain.errors import BadRequest
from shared.domain.messages import MAX_MESSAGES
from shared.http.body import MAX_CONTAINERS, MAX_ERRORS, InvalidField, validate
from shared.http.call import Limits
from shared.protocols.exchange import App
from shared.telemetry.access_log import QueryStripper
from tests.support.calls import QUESTION, BufferedReply, ask, call, local_service
from tests.support.fakes import FakeModel, make_rag

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
KINDS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0abc",
    "image/gif": b"GIF89a...",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
}
FORM = {"content-type": "multipart/form-data; boundary=cut"}
FILE = 'form-data; name="messages[0].files[0]"'
DOCUMENT = ("form-data; name=json", json.dumps(QUESTION).encode())


def form(*parts: tuple[str, bytes]) -> bytes:
    """Encode a form as the published client does: parts without a file name."""
    head = b"--cut\r\ncontent-disposition: %s\r\ncontent-type: application/json\r\n\r\n%s\r\n"
    return b"".join(head % (name.encode(), data) for name, data in parts) + b"--cut--\r\n"


def post_form(data: Any, model: FakeModel | None = None, **limits: Any) -> BufferedReply:
    service = App(make_rag(model), limits=Limits(**limits))
    return ask(call("/chat", data, headers=FORM), service)


@pytest.mark.parametrize("kind", KINDS)
def test_image_type_is_detected_for_every_chunk_boundary(kind: str) -> None:
    data = form(DOCUMENT, (FILE, KINDS[kind][:60]))
    for at in range(1, len(data), 7):
        model = FakeModel(max_prompt_tokens=200_000)
        response = post_form([data[:at], data[at:]], model)

        assert response.status == 200
        assert model.calls[0].messages[-1].images[0].startswith(f"data:{kind};base64,")


def test_images_keep_message_and_order() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    document = json.dumps({"messages": [*messages, *QUESTION["messages"]]}).encode()
    names = ["messages[2].files[1]", "messages[0].files[0]", "messages[2].files[0]"]
    images = [(f'form-data; name="{name}"', KINDS["image/gif"]) for name in names[:2]]
    model = FakeModel(max_prompt_tokens=200_000)
    parts = [*images, ("form-data; name=json", document), (f'form-data; name="{names[2]}"', PNG)]
    response = post_form(form(*parts), model)
    kinds = [[url[5:14] for url in message.images] for message in model.calls[-1].messages]

    assert response.status == 200
    assert kinds == [[], ["image/gif"], [], ["image/png", "image/gif"]]


INVALID_FORMS: list[tuple[bytes, int, str]] = [
    (form(DOCUMENT, (FILE, b"%PDF-1.7")), 400, "messages[0].files[0]: must be an image"),
    (form(DOCUMENT, (FILE, b"")), 400, "messages[0].files[0]: must be an image"),
    (
        form(DOCUMENT, ('form-data; name="messages[1].files[0]"', PNG)),
        400,
        "messages[1].files[0]: there is no such message",
    ),
    (
        form(DOCUMENT, ('form-data; name="messages[0].file"', PNG)),
        400,
        "messages[0].file: there is no such message",
    ),
    (form((FILE, PNG)), 400, "json: is required"),
    (form(("form-data; name=json", b"{")), 400, "The body is not valid JSON"),
    (form(("form-data; name=json", b"{}")), 400, "messages: is required"),
    (form(("form-data; name=json", b" " * 6000)), 413, "The part json is larger than 5000 bytes"),
    (form(DOCUMENT)[:-8], 400, "The form cannot be read"),
    (b"", 400, "The form cannot be read"),
    (b"no form at all", 400, "The form cannot be read"),
    (form(DOCUMENT, (FILE, PNG * 5)), 413, "The request is larger than the limit of 20000"),
]


@pytest.mark.parametrize(("data", "status", "sentence"), INVALID_FORMS)
def test_invalid_form_is_rejected_with_the_part_name(
    data: bytes, status: int, sentence: str
) -> None:
    response = post_form(data, json_bytes=5000, form_bytes=20_000)

    assert response.status == status
    assert response.json["error"].startswith(sentence)


def test_form_with_many_parts_is_read_and_with_too_many_rejected() -> None:
    def parts(number: int) -> list[tuple[str, bytes]]:
        names = (f'form-data; name="messages[0].files[{at}]"' for at in range(number))
        return [DOCUMENT, *((name, KINDS["image/gif"]) for name in names)]

    assert post_form(form(*parts(150)), FakeModel(max_prompt_tokens=200_000)).status == 200
    assert post_form(form(*parts(250))).json["error"].startswith("The form has more than 200 parts")


def test_duplicate_part_names_are_rejected() -> None:
    response = post_form(form(DOCUMENT, (FILE, PNG), (FILE, PNG)))

    assert response.json == {"error": "The form has two parts of the same name."}


def test_form_without_boundary_is_a_400() -> None:
    response = ask(call("/chat", form(DOCUMENT), headers={"content-type": "multipart/form-data"}))

    assert response.status == 400


def test_files_of_an_assistant_message_are_rejected() -> None:
    messages = [{"role": "assistant", "content": "b"}, *QUESTION["messages"]]
    response = post_form(
        form(("form-data; name=json", json.dumps({"messages": messages}).encode()), (FILE, PNG))
    )

    assert response.json == {
        "error": "messages[0].files[0]: only a message of the user can have files"
    }


GIF = list(KINDS["image/gif"])
GIF_URL = "data:image/gif;base64,R0lGODlhLi4u"
# As JSON.stringify writes a Uint8Array, a Buffer of Node.js and an array; base64; a data URL.
ENCODED_IMAGES = {
    "typed array": {str(index): value for index, value in enumerate(GIF)},
    "buffer": {"type": "Buffer", "data": GIF},
    "array": GIF,
    "base64": "R0lGODlhLi4u",
    "data url": GIF_URL,
}


def post_files(*files: Any, model: FakeModel | None = None, **more: Any) -> BufferedReply:
    (message,) = QUESTION["messages"]
    body = {"messages": [{**message, "files": list(files)}], **more}
    return ask(call("/chat", body), App(make_rag(model)))


@pytest.mark.parametrize("state", ["sessionState", "session_state", "stream"])
@pytest.mark.parametrize("data", ENCODED_IMAGES.values(), ids=ENCODED_IMAGES)
def test_image_in_json_reaches_the_model(data: Any, state: str) -> None:
    model = FakeModel(max_prompt_tokens=200_000)
    file = {"data": data, "contentType": "image/gif"}
    response = post_files(file, {"data": "/9j/"}, model=model, **{state: None})

    assert response.status == 200
    assert model.calls[0].messages[-1].images == (GIF_URL, "data:image/jpeg;base64,/9j/")


def test_files_may_be_null_or_empty() -> None:
    message = {**QUESTION["messages"][0], "files": None}
    messages = [{"role": "assistant", "content": "b", "files": []}, message]

    assert ask(call("/chat", {"messages": messages})).status == 200


def test_images_in_json_and_in_the_form_are_both_read() -> None:
    message = {**QUESTION["messages"][0], "files": [{"data": GIF_URL}]}
    document = json.dumps({"messages": [message]}).encode()
    model = FakeModel(max_prompt_tokens=200_000)
    post_form(form(("form-data; name=json", document), (FILE, KINDS["image/jpeg"])), model)

    kinds = [url[5:15] for url in model.calls[0].messages[-1].images]
    assert kinds == ["image/gif;", "image/jpeg"]


NO_IMAGES: dict[str, Any] = {
    "nothing": None,
    "blob": {},
    "empty": "",
    "no base64": "R0lGODlhLi4u!",
    "pdf": "JVBERi0xLjc=",
    "no array": 2**40,
    "sparse": {"0": 71, "4000000000": 73},
    "disordered": {"1": 73, "0": 71},
    "padded": {"00": 71, "01": 73},
    "large numbers": [71, 10**4000],
    "negative": [-1],
    "fractions": [71.5],
    "strings": {"0": "G", "1": "I"},
    "nested": {"type": "Buffer", "data": {"type": "Buffer", "data": GIF}},
    "buffer without data": {"type": "Buffer"},
}


@pytest.mark.parametrize("data", NO_IMAGES.values(), ids=NO_IMAGES)
def test_file_in_json_that_is_no_image_is_a_400_with_its_name(data: Any) -> None:
    response = post_files({"data": GIF_URL}, {"data": data})

    assert response.status == 400
    assert response.json["error"].startswith(
        "messages[0].files[1]: must be an image (png, jpeg, gif or webp), with its bytes in data"
    )


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ("x", "messages[0].files: must be a list"),
        (["x"] * 10_000, "messages[0].files[0]: must be an object"),
        ([{"data": GIF_URL}] * 201, "messages[0].files: a request has 200 files at most"),
    ],
)
def test_wrong_files_in_json_are_a_400(files: Any, sentence: str) -> None:
    message = {**QUESTION["messages"][0], "files": files}
    response = ask(call("/chat", {"messages": [message]}))

    assert (response.status, response.json) == (400, {"error": sentence})


def test_files_in_json_of_an_assistant_message_are_rejected() -> None:
    earlier = {"role": "assistant", "content": "b", "files": [{"data": GIF_URL}]}
    response = ask(call("/chat", {"messages": [earlier, *QUESTION["messages"]]}))

    assert response.json == {
        "error": "messages[0].files[0]: only a message of the user can have files"
    }


def test_query_string_is_removed_from_the_access_log() -> None:
    line = '%s - "%s %s HTTP/%s" %d'
    arguments = ("127.0.0.1:1", "POST", "/chat?code=s3cret&x=1", "1.1", 200)
    record = logging.LogRecord("uvicorn.access", 20, "", 1, line, arguments, None)

    assert QueryStripper().filter(record)
    assert record.getMessage() == '127.0.0.1:1 - "POST /chat HTTP/1.1" 200'


def test_body_with_too_many_containers_is_a_400() -> None:
    most = {**QUESTION, "sessionState": [[]] * (MAX_CONTAINERS - 4)}
    more = {**QUESTION, "sessionState": [[]] * (MAX_CONTAINERS - 3)}

    assert ask(call("/chat", most)).status == 200
    response = ask(call("/chat", more))
    assert response.status == 400
    limit = "250,000 lists and objects (brackets in strings count)"
    assert response.json == {"error": f"The JSON body has more than {limit}."}


LISTS = [
    ("/chat", "messages"),
    ("/chat", "input"),
    pytest.param("/v1/chat/completions", "messages", marks=pytest.mark.part("openai")),
    pytest.param("/v1/responses", "input", marks=pytest.mark.part("responses")),
    pytest.param("/aog/v0.2/services/{service}", "messages", marks=pytest.mark.part("aog")),
]


@pytest.mark.parametrize(
    ("route", "key"),
    LISTS,
)
def test_a_request_with_too_many_messages_is_a_400(route: str, key: str) -> None:
    service, message = local_service(make_rag(FakeModel(limits={}))), QUESTION["messages"][0]
    most, more = (
        ask(call(route, {key: [message] * count}, path="chat"), service)
        for count in (MAX_MESSAGES, MAX_MESSAGES + 1)
    )

    assert (most.status, more.status) == (200, 400)
    assert f"{key}: must have 10000 entries at most" in more.data.decode()


class Metadata(BaseModel, strict=True):
    metadata: dict[str, str]


def test_only_the_first_of_many_errors_of_a_model_are_looked_at() -> None:
    seen: list[InvalidField] = []

    def fail(fields: Sequence[InvalidField]) -> BadRequest:
        seen.extend(fields)
        return BadRequest("")

    with pytest.raises(BadRequest):
        validate(Metadata, {"metadata": dict.fromkeys(map(str, range(1000)), 1)}, fail=fail)

    assert [field.path for field in seen] == [f"metadata.{key}" for key in range(MAX_ERRORS)]
