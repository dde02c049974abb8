"""Request bodies: forms with images, limits, and the access log's query strings."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from shared.app import Service
from shared.http.body import MAX_CONTAINERS
from shared.http.call import Limits
from shared.telemetry.access_log import QueryStripper
from tests.support.calls import QUESTION, BufferedReply, ask, call
from tests.support.fakes import FakeModel, engine

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
    service = Service(engine(model), limits=Limits(**limits))
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
