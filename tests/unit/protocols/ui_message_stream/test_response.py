"""The events of the UI message stream, beyond the golden files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from shared.domain.errors import Unavailable
from shared.domain.events import Delta, Done, Source
from tests.support.calls import BufferedReply, ask, call, local_service, read_events
from tests.support.fakes import PLUS, FakeModel, FakeRetriever, ScriptStep, make_rag

QUESTION = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "What is it?"}]}]}
END = b"data: [DONE]\n\n"


def stream(
    *script: ScriptStep, sources: Sequence[Source] = (PLUS,), thoughts: bool = True, **more: Any
) -> list[Any]:
    """The events of an answer, without the end marker."""
    rag = replace(make_rag(FakeModel(script), FakeRetriever(sources)), thoughts=thoughts)
    reply = ask(call("/api/chat", {**QUESTION, **more}), local_service(rag))

    assert reply.data.endswith(END)
    return read_events(replace(reply, data=reply.data.removesuffix(END)))


def types(events: Sequence[Any]) -> list[str]:
    return [event["type"] for event in events]


def parts(events: Sequence[Any], prefix: str) -> list[Any]:
    return [event for event in events if event["type"].startswith(prefix)]


def test_headers_are_those_of_the_protocol() -> None:
    reply: BufferedReply = ask(call("/api/chat", QUESTION))

    assert reply.media_type == "text/event-stream"
    assert reply.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert reply.headers["x-accel-buffering"] == "no"


def test_passages_of_one_page_are_one_source() -> None:
    second = replace(PLUS, id="plus-3", content="More.")
    events = stream(Delta("a"), Done(), sources=(PLUS, second))

    (source,) = parts(events, "source")
    assert source["sourceId"] == PLUS.sourcepage


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("a.pdf", "application/pdf"),
        ("a.MD", "text/markdown"),
        ("a.unknown", "text/plain"),
        ("a", "text/plain"),
    ],
)
def test_passage_without_an_address_is_a_document(file: str, kind: str) -> None:
    source = replace(PLUS, url="", sourcefile=file, sourcepage=f"{file}#page=2")
    (event,) = parts(stream(Delta("a"), Done(), sources=(source,)), "source")

    name = f"{file}#page=2"
    document = {"sourceId": name, "mediaType": kind, "title": name, "filename": file}
    assert event == {"type": "source-document", **document}


def test_passage_with_an_address_of_its_own_is_a_link_to_it() -> None:
    source = replace(PLUS, url="https://example.com/plus")
    (event,) = parts(stream(Delta("a"), Done(), sources=(source,)), "source")

    assert event["url"] == "https://example.com/plus"


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_a_part_before_the_text(key: str) -> None:
    script = (Delta(message_extra={key: "Hm"}), Delta(message_extra={key: "."}), Delta("Yes"))
    events = parts(stream(*script, Done(), sources=()), "reasoning")
    order = types(stream(*script, Done(), sources=()))

    assert [event.get("delta") for event in events] == [None, "Hm", ".", None]
    assert len({event["id"] for event in events}) == 1
    assert order.index("reasoning-end") < order.index("text-start")


def test_reasoning_is_not_sent_where_steps_are_hidden() -> None:
    script = (Delta(message_extra={"reasoning": "Hm"}), Delta("Yes"), Done())

    assert parts(stream(*script, thoughts=False), "reasoning") == []
    assert parts(stream(*script, overrides={"thoughts": False}), "reasoning") == []


@pytest.mark.parametrize("value", [None, 7, {"a": 1}, ""])
def test_reasoning_of_another_form_is_left_out(value: Any) -> None:
    events = stream(Delta(message_extra={"reasoning": value}), Delta("Yes"), Done())

    assert parts(events, "reasoning") == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "other"),
        ("insufficient_system_resource", "other"),
        ("", "other"),
    ],
)
def test_finish_reason_is_one_that_every_client_knows(reason: str, expected: str) -> None:
    *_, last = stream(Delta("a"), Done(reason))

    assert last["finishReason"] == expected


def test_answer_without_text_has_no_text_part() -> None:
    events = stream(Done())

    assert parts(events, "text") == []
    assert types(events)[-2:] == ["finish-step", "finish"]


def test_usage_is_left_out_if_the_model_reports_none() -> None:
    *_, last = stream(Delta("a"), Done(model="served"))

    assert last["messageMetadata"] == {"model": "served"}


def test_failure_after_the_first_event_is_the_last_event() -> None:
    events = stream(Delta("Half"), Unavailable())

    assert types(events)[-2:] == ["text-delta", "error"]
    assert events[-1] == {"type": "error", "errorText": Unavailable.default}


def test_warnings_are_notices() -> None:
    events = stream(Delta("a"), Done(warnings=("Not stored.",)))

    assert parts(events, "data-notice") == [{"type": "data-notice", "data": "Not stored."}]


def test_tokens_that_arrived_together_are_one_write() -> None:
    script = (Delta("a", more=True), Delta("b", more=True), Delta("c"), Delta("d"), Done())

    assert [event["delta"] for event in parts(stream(*script), "text-delta")] == [*"abcd"]


def test_no_stream_can_be_resumed() -> None:
    reply = ask(call("/api/chat/{id}/stream", b"", method="GET", path="a b"))

    assert (reply.status, reply.data) == (204, b"")
