"""What AOG refuses in a request: the sentence, and the field that it names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.calls import BufferedReply, ask, call

USER: Any = {"role": "user", "content": "Hello?"}


def ask_aog(**fields: Any) -> BufferedReply:
    body = {"messages": [USER], **fields}
    return ask(call("/aog/v0.2/services/{service}", body, path="chat"))


def content(value: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": value}, USER]}


PLACE = "messages[0].content"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"stop": [1]}, "stop: must be a string, or a list of 16 at most"),
        ({"stop": ["."] * 17}, "stop: must be a string, or a list of 16 at most"),
        ({"keep_alive": True}, "keep_alive: must be a time such as"),
        ({"keep_alive": [5]}, "keep_alive: must be a time such as"),
        ({"remote_service_provider": 7}, "remote_service_provider: must be a name, or an object"),
        ({"hybrid_policy": "sometimes"}, "hybrid_policy: must be one of "),
        (
            {"messages": [{"role": "system", "content": "Be kind."}]},
            "messages: at least one must be the user's, with a text",
        ),
        (
            {"messages": [USER, {"role": "tool", "content": "{}"}]},
            "messages[1].tool_call_id: is required in a message of the role tool",
        ),
        ({"messages": [{**USER, "images": ["%"]}]}, "messages[0].images[0]: must be an image in"),
        (content(None), f"{PLACE}: is required"),
        (content([]), f"{PLACE}: is required"),
        (content([{"type": "text"}]), f"{PLACE}[0].text: must be a string, or an object with a"),
        (content([{"type": "image_url"}]), f"{PLACE}[0].image_url: must be an object with a url"),
        (
            content([{"type": "image_url", "image_url": {"url": "ftp://a.example"}}]),
            f"{PLACE}[0].image_url.url: ",
        ),
        (
            content([{"type": "image", "image": ""}]),
            f"{PLACE}[0].image: must be an image in base64",
        ),
        (content([{"type": "image_file"}]), f"{PLACE}[0]: image_file is not supported"),
        (content([{"type": "sound"}]), f"{PLACE}[0].type: must be one of text, image_url, image"),
        (content([7]), f"{PLACE}[0]: must be a string, an object, or a list of these"),
    ],
)
def test_aog_names_what_it_does_not_read(fields: dict[str, Any], sentence: str) -> None:
    reply = ask_aog(**fields)

    assert reply.status == 400
    assert sentence in str(reply.json)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stop": ["."] * 16},
        {"stop": "."},
        {"keep_alive": "5m"},
        {"keep_alive": 0.5},
        content([{"type": "text", "text": {"value": "Hello?"}}]),
    ],
)
def test_aog_reads_what_it_documents(fields: dict[str, Any]) -> None:
    assert ask_aog(**fields).status == 200
