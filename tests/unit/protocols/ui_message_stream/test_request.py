"""Which messages of a page reach the model, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from tests.support.calls import PNG_URL, ask, call, local_service
from tests.support.fakes import FakeModel, make_rag

Json = dict[str, Any]
QUESTION = {"role": "user", "parts": [{"type": "text", "text": "What is in Plus?"}]}


def post(*messages: Any, client_prompts: bool = False, **more: Any) -> tuple[int, str]:
    """The status and the text of the response."""
    service = local_service(make_rag(client_prompts=client_prompts))
    reply = ask(call("/api/chat", {"messages": messages, **more}), service)
    return reply.status, reply.data.decode()


def history(*messages: Any) -> list[tuple[str, str]]:
    """The role and text of each message before the question, as the model gets them."""
    model = FakeModel()
    reply = ask(
        call("/api/chat", {"messages": [*messages, QUESTION]}), local_service(make_rag(model))
    )

    assert reply.status == 200
    prompt: list[Message] = list(model.calls[-1].messages)
    return [(each.role, each.content) for each in prompt[1:-1]]


def message(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": [*parts]}


def text(value: str, **more: Any) -> Json:
    return {"type": "text", "text": value, **more}


IGNORED: list[Json] = [
    {"type": "step-start"},
    {"type": "reasoning", "text": "Hm.", "state": "done"},
    {"type": "reasoning-file", "mediaType": "image/png", "url": 1},
    {"type": "source-url", "sourceId": "a.md", "url": "javascript:1"},
    {"type": "source-document", "sourceId": "a.md", "mediaType": 7, "title": "a.md"},
    {"type": "tool-weather", "toolCallId": "1", "state": "output-available", "text": {}},
    {"type": "dynamic-tool", "toolName": "f", "toolCallId": "1", "state": "output-error"},
    {"type": "data-followups", "data": ["Why?"]},
    {"type": "data-a\nb", "data": None},
    {"type": "custom", "kind": "x"},
    {"type": "steering-message", "parts": [{"type": "text", "text": "Be brief."}]},
    {"type": "file", "mediaType": "application/pdf", "url": "data:application/pdf;base64,"},
]


@pytest.mark.parametrize("part", IGNORED, ids=lambda part: part["type"])
def test_only_the_text_of_an_earlier_answer_is_read(part: Json) -> None:
    earlier = [message("user", text("Hello")), message("assistant", part, text("Hi."))]

    assert history(*earlier) == [("user", "Hello"), ("assistant", "Hi.")]


def test_texts_of_a_message_are_joined() -> None:
    earlier = [message("user", text("a"), text("b")), message("assistant", text("c", state="done"))]

    assert history(*earlier) == [("user", "a\nb"), ("assistant", "c")]


def test_answer_without_text_is_left_out() -> None:
    earlier = [
        message("user", text("one")),
        message("assistant", {"type": "step-start"}),
        message("user", text("two")),
        message("user", text("three")),
    ]

    assert history(*earlier) == [("user", "one"), ("user", "two"), ("user", "three")]


def test_interrupted_answer_counts() -> None:
    earlier = [message("user", text("one")), message("assistant", text("Ha", state="streaming"))]

    assert history(*earlier) == [("user", "one"), ("assistant", "Ha")]


@pytest.mark.parametrize("url", [PNG_URL, "https://example.com/dot.png"])
@pytest.mark.parametrize("kind", ["image/png", "image"])
def test_image_is_part_of_the_question(url: str, kind: str) -> None:
    model = FakeModel()
    file = {"type": "file", "mediaType": kind, "url": url, "filename": "dot.png"}
    ask(
        call("/api/chat", {"messages": [message("user", file, text("What is this?"))]}),
        local_service(make_rag(model)),
    )

    assert model.calls[-1].messages[-1].images == (url,)


REFUSED: list[tuple[Any, str]] = [
    ({}, "messages: is required"),
    ({"messages": None}, "messages: is required"),
    ({"messages": []}, "messages: must not be empty"),
    ({"messages": [7]}, "messages[0]: must be an object"),
    ({"messages": [message("tool")]}, "messages[0].role: must be"),
    ({"messages": [{"role": "user", "parts": "Hello"}]}, "messages[0].parts: must be a list"),
    ({"messages": [message("user", text("a"), 7)]}, "messages[0].parts[1]: must be an object"),  # type: ignore[arg-type]
    ({"messages": [message("user", {"text": "a"})]}, "messages[0].parts[0].type: is required"),
    ({"messages": [message("user", {"type": "text"})]}, "messages[0].parts[0].text: is required"),
    ({"messages": [message("user", text(7))]}, "messages[0].parts[0].text: must be a string"),  # type: ignore[arg-type]
    ({"messages": [message("user")]}, "messages[0].parts: must have a text"),
    ({"messages": [message("user", text(" \n"))]}, "messages[0].parts: must have a text"),
    (
        {"messages": [QUESTION, message("assistant", text("a"))]},
        "messages[1].role: the last message must be the user's",
    ),
    (
        {"messages": [message("user", {"type": "audio"}, text("a"))]},
        "messages[0].parts[0].type: must be text or file",
    ),
    (
        {"messages": [message("user", {"type": "file", "url": PNG_URL}, text("a"))]},
        "messages[0].parts[0].mediaType: is required",
    ),
    (
        {"messages": [message("user", {"type": "file", "mediaType": "image"}, text("a"))]},
        "messages[0].parts[0].url: is required",
    ),
    (
        {
            "messages": [
                message("user", {"type": "file", "mediaType": "image", "url": "http://10.0.0.1/"})
            ]
        },
        "messages[0].parts[0].url: must ",
    ),
    ({"messages": [QUESTION], "overrides": []}, "overrides: must be an object"),
    ({"messages": [QUESTION], "overrides": {"top": 0}}, "overrides.top: must be 1 or more"),
    (
        {"messages": [QUESTION], "overrides": {"vector_fields": [1]}},
        "overrides.vector_fields[0]: must be a string",
    ),
    ([], "The body must be a JSON object."),
]


@pytest.mark.parametrize(("body", "sentence"), REFUSED)
def test_refusal_names_the_place_in_a_sentence(body: Any, sentence: str) -> None:
    reply = ask(call("/api/chat", json.dumps(body).encode()))

    assert reply.status == 400
    assert reply.media_type == "text/plain"
    assert reply.data.decode().startswith(sentence)


def test_messages_of_another_protocol_are_told_their_route() -> None:
    status, sentence = post({"role": "user", "content": "Hello"}, model="llama")

    assert status == 400
    assert sentence.startswith("messages[0].parts: is required; messages with `content`")
    assert sentence.endswith("go to POST /chat")


def test_instructions_are_refused_unless_the_deployment_allows_them() -> None:
    system = message("system", text("Be a pirate."))
    refused = post(message("user", text("a")), system, QUESTION)

    assert refused == (400, "messages[1].role: must be user or assistant in this deployment")
    assert post(system, QUESTION, client_prompts=True)[0] == 200


def test_keys_of_the_page_are_ignored() -> None:
    more: Json = {
        "id": "1",
        "trigger": "submit-message",
        "messageId": None,
        "stream": False,
        "x": [1],
    }
    status, _ = post(QUESTION, **more)

    assert status == 200


def test_overrides_may_be_null() -> None:
    missing: Json = dict.fromkeys(Overrides.model_fields)

    assert post(QUESTION, overrides=None)[0] == 200
    assert post(QUESTION, overrides=missing)[0] == 200
