"""The versions of the AI Chat Protocol: what an answer consists of, and its content type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.protocols.ai_chat.routes import AiChatConfig
from shared.protocols.exchange import App
from shared.settings import read_settings
from tests.support.calls import JSON, QUESTION, BufferedReply, ask, call, local_service
from tests.support.fakes import PLUS, FakeModel, FakeRetriever, make_rag
from tests.support.servers import LAPTOP

USER = {"role": "user", "content": "What is in Plus?"}
INPUT = {"messages": None, "input": USER["content"]}  # beside QUESTION


@pytest.mark.parametrize(("setting", "shown"), [("", True), ("on", True), ("off", False)])
def test_no_request_turns_thoughts_on_again(setting: str, shown: bool) -> None:
    thoughts = read_settings({**LAPTOP, "THOUGHTS": setting}).thoughts == "on"
    service = local_service(replace(make_rag(), thoughts=thoughts))
    body = {**QUESTION, "context": {"overrides": {"thoughts": True}}}

    assert ("thoughts" in ask(call("/chat", body), service).json["context"]) is shown


def text_of(value: dict[str, Any]) -> str:
    """The text of a line, or of a whole answer."""
    delta = value.get("delta", value.get("output_text")) or value.get("message", {})
    return str(delta if isinstance(delta, str) else delta.get("content", ""))


def folded(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A stream put together as a client would: texts joined, contexts merged."""
    whole: dict[str, Any] = {"text": "", "context": {}, "rest": {}}
    for line in lines:
        choice = line["choices"][0] if "choices" in line else line
        whole["text"] += text_of(choice)
        whole["context"] |= choice.get("context", {})
        states = {key: value for key, value in choice.items() if key.endswith(("State", "_state"))}
        whole["rest"] |= states
    return whole


KEYS = [{"sessionState": 1}, {"session_state": 1}, {"stream": True}, INPUT]


@pytest.mark.parametrize("keys", KEYS)
def test_images_are_among_the_data_points_only_when_they_were_used(keys: dict[str, Any]) -> None:
    def data_points(**overrides: Any) -> dict[str, Any]:
        retriever = FakeRetriever((replace(PLUS, image="data:image/png;base64,AA=="),))
        service = App(make_rag(FakeModel(max_prompt_tokens=9000), retriever))
        body = {**QUESTION, **keys, "context": {"overrides": overrides}}
        route = "/chat" if "stream" in keys else "/chat/stream"
        first = ask(call(route, body), service).lines[0]
        points: dict[str, Any] = folded([first])["context"]["data_points"]
        return points

    assert data_points(use_gpt4v=True)["images"] == [
        {"detail": "auto", "url": "data:image/png;base64,AA=="}
    ]
    assert "images" not in data_points()
    assert "images" not in data_points(use_gpt4v=True, gpt4v_input="text")


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("followups", [True, False])
def test_a_stream_folded_equals_the_answer(keys: dict[str, Any], followups: bool) -> None:
    context = {"overrides": {"suggest_followup_questions": followups}}
    body = {**QUESTION, **keys, "context": context}
    old = "stream" in keys
    stream = folded(ask(call("/chat" if old else "/chat/stream", body)).lines)
    whole = ask(call("/chat", {**body, "stream": False} if old else body)).json
    choice = whole["choices"][0] if old else whole

    assert stream["text"] == text_of(choice)
    assert stream["context"] == choice["context"]
    assert all(choice[key] == value for key, value in stream["rest"].items())
    assert stream["rest"]


@pytest.mark.parametrize(
    ("route", "keys", "kind"),
    [
        ("/chat/stream", {}, "application/jsonl"),
        ("/chat/stream", {"session_state": None}, "application/json-lines"),
        ("/chat/stream", {"session_state": None, "sessionState": None}, "application/jsonl"),
        ("/chat/stream", {"stream": "nonsense"}, "application/jsonl"),
        ("/chat/stream", INPUT, "application/x-ndjson"),
        ("/chat/stream", {**INPUT, "session_state": 1, "sessionState": 1}, "application/x-ndjson"),
        ("/chat/stream", {"input": "ignored"}, "application/jsonl"),
        ("/chat", {**INPUT, "stream": True}, "application/x-ndjson"),
        ("/chat", {**INPUT, "stream": False}, "application/json"),
        ("/chat", {"stream": True}, "application/json-lines"),
        ("/ask", {"stream": True}, "application/json-lines"),
        ("/chat", {}, "application/json"),
        ("/chat", {"stream": False}, "application/json"),
        ("/ask", {}, "application/json"),
    ],
)
def test_route_and_body_choose_the_content_type(
    route: str, keys: dict[str, Any], kind: str
) -> None:
    assert ask(call(route, QUESTION | keys)).media_type == kind


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/x-ndjson", "application/x-ndjson"),
        ("application/json-lines;q=0.9, */*", "application/json-lines"),
        ("text/html, Application/X-NDJSON", "application/x-ndjson"),
        ("application/json", "application/jsonl"),
        ("*/*", "application/jsonl"),
        ("application/x-ndjson;q=0, application/json-lines; q=0.5", "application/json-lines"),
    ],
)
def test_accept_names_the_content_type_of_a_stream_and_of_nothing_else(
    accept: str, kind: str
) -> None:
    headers = {**JSON, "accept": accept}
    stream = ask(call("/chat/stream", headers=headers))

    assert stream.media_type == kind
    assert stream.data == ask(call("/chat/stream")).data
    assert ask(call("/chat", headers=headers)).media_type == "application/json"


@pytest.mark.parametrize(
    ("route", "body", "keys"),
    [
        ("/chat", {"sessionState": None}, {"message", "context", "sessionState"}),
        ("/chat", {"session_state": 1, "sessionState": 1}, {"message", "context", "sessionState"}),
        ("/chat", {"session_state": 1}, {"output_text", "context", "session_state"}),
    ],
)
def test_the_setting_changes_only_answers_to_bodies_with_session_state(
    route: str, body: dict[str, Any], keys: set[str]
) -> None:
    answers = read_settings({**LAPTOP, "CHAT_ANSWERS": "output_text"}).chat_answers
    service = local_service(make_rag(), configs=(AiChatConfig(answers),))

    assert ask(call(route, QUESTION | body), service).json.keys() == keys
    assert "choices" in ask(call("/chat", {**QUESTION, **body, "stream": False}), service).json
    assert "choices" in ask(call("/ask", QUESTION | body), service).json


def test_no_line_but_an_error_has_an_error_key_and_no_delta_a_null() -> None:
    got = [ask(call("/chat/stream")), ask(call("/ask", {**QUESTION, "stream": True}))]
    newest = ask(call("/chat/stream", INPUT)).lines
    lines = [line for each in got for line in each.lines]
    deltas = [line["choices"][0]["delta"] if "choices" in line else line["delta"] for line in lines]

    assert not any("error" in line for line in [*lines, *newest])
    assert [key for line in newest for key in line if line[key] is None] == ["session_state"]
    assert not any(value is None for delta in deltas for value in delta.values())


def test_line_ends_that_only_some_readers_know_are_escaped() -> None:
    got: BufferedReply = ask(
        call("/chat/stream", {**QUESTION, "sessionState": "a\u2028b\u2029c\u0085d"})
    )

    assert len(got.data.decode().splitlines()) == len(got.lines)
    assert got.lines[0]["sessionState"] == "a\u2028b\u2029c\u0085d"
