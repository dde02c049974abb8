"""What is read of the Responses API's streams, wherever they are cut and whatever they lack."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from shared.domain.errors import ChatError, ContentFiltered, Unavailable
from shared.domain.events import Delta, Done, Usage
from shared.domain.messages import ToolCall
from shared.models.formats.responses import RESPONSES
from shared.models.openai.stream_decoder import BodyReader, EventReader, StreamDecoder
from tests.support.fuzz import EXAMPLES, FUZZ, junk
from tests.support.responses_upstream import (
    IN_TEXT,
    USAGE,
    answer_events,
    call_events,
    call_item,
    completed,
    error,
    event,
    failed,
    incomplete,
    message_item,
    response,
    text_delta,
)

TEXT = "Köln 😀 [a.md]."
CALL = ToolCall(0, "c1", "weather", '{"city": "Köln"}')
ITEM = call_item("c1", "weather", '{"city": "Köln"}')
ADDED = event("response.output_item.added", output_index=1, item={**ITEM, "arguments": ""})
STREAM = [
    event("response.created", response=response("in_progress")),
    *(text_delta(text) for text in ("Köln ", "😀", " [a.md].")),
    event("response.output_item.done", output_index=0, item=message_item(TEXT)),
    *call_events(1, "c1", "weather", '{"city": ', '"Köln"}'),
    *call_events(2, "c2", "weather", "{}"),
    completed(message_item(TEXT), ITEM, call_item("c2", "weather", "{}")),
]


def decode(data: Sequence[bytes]) -> tuple[str, list[ToolCall], Done]:
    """The text, the calls and the end of an answer that arrives in these chunks."""
    reader, decoder = EventReader(), StreamDecoder(RESPONSES, "m")
    deltas: list[Delta] = []
    for chunk in data:
        deltas += decoder.decode_all(reader.feed(chunk))
    deltas += decoder.decode_all(reader.end())
    return (*joined(deltas), decoder.done())


def joined(deltas: Sequence[Delta]) -> tuple[str, list[ToolCall]]:
    calls: dict[int, ToolCall] = {}
    for part in (part for delta in deltas for part in delta.tool_calls):
        known = calls.get(part.index, ToolCall(part.index))
        assert not (known.name and part.name)  # clients join the parts of a name, too
        arguments = known.arguments + part.arguments
        calls[part.index] = ToolCall(
            part.index, known.id or part.id, known.name or part.name, arguments
        )
    return "".join(delta.content for delta in deltas), list(calls.values())


def test_the_events_of_the_fake_server_are_those_of_openai_s_package() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    ends = [incomplete("max_output_tokens"), failed("server_error"), error({"code": "x"})]
    for data in [*STREAM, *answer_events("a", "b"), *ends]:
        name, _, body = data.partition(b"\ndata: ")
        value = json.loads(body)
        parsed = adapter.validate_python(value, strict=True)

        assert name == f"event: {value['type']}".encode()
        assert parsed.type == value["type"]


def test_a_stream_is_read_alike_wherever_its_bytes_are_split() -> None:
    data = b"".join(STREAM)
    text, calls, done = decode([data])

    assert (text, calls) == (TEXT, [CALL, ToolCall(1, "c2", "weather", "{}")])
    assert done.finish_reason == "tool_calls"
    assert done.usage == Usage(11, 3, cached_tokens=4, reasoning_tokens=2)
    assert done.model == "gpt-5.4-pro-2026-03-05"
    assert all(decode([data[:cut], data[cut:]]) == (text, calls, done) for cut in range(len(data)))


def test_a_stream_that_is_cut_is_never_an_answer() -> None:
    data = b"".join(STREAM).rstrip()
    for cut in range(len(data)):
        with pytest.raises(Unavailable):
            decode([data[:cut]])


# Of servers that send no deltas: what there is of an answer with a text and a call.
WITHOUT_DELTAS: list[Any] = [
    pytest.param(
        [
            event("response.output_text.done", **IN_TEXT, text=TEXT, logprobs=[]),
            event("response.content_part.done", **IN_TEXT, part=message_item(TEXT)["content"][0]),
            event("response.output_item.done", output_index=0, item=message_item(TEXT)),
            ADDED,
            event(
                "response.function_call_arguments.done",
                output_index=1,
                item_id="fc_c1",
                arguments=CALL.arguments,
            ),
            event("response.output_item.done", output_index=1, item=ITEM),
            completed(message_item(TEXT), ITEM),
        ],
        id="each ends",
    ),
    pytest.param(
        [
            event("response.output_item.done", output_index=0, item=message_item(TEXT)),
            ADDED,
            event("response.output_item.done", output_index=1, item=ITEM),
            completed(),
        ],
        id="whole items",
    ),
    pytest.param([completed(message_item(TEXT), ITEM)], id="the last event alone"),
    pytest.param([ADDED, completed(message_item(TEXT), ITEM)], id="a call without arguments"),
    pytest.param(
        [
            *(text_delta(character) for character in TEXT),
            *call_events(7, "c1", "weather", CALL.arguments),
            completed({"id": "r", "type": "reasoning"}, message_item(TEXT), ITEM),
        ],
        id="items at another place in the last event",
    ),
]


@pytest.mark.parametrize("events", WITHOUT_DELTAS)
def test_every_text_and_call_is_read_once(events: list[bytes]) -> None:
    text, calls, done = decode(events)

    assert (text, calls) == (TEXT, [CALL])
    assert (done.finish_reason, done.model) == ("tool_calls", "gpt-5.4-pro-2026-03-05")


def test_a_call_without_a_text_of_arguments_is_an_error() -> None:
    whole = {**ITEM, "arguments": {"city": "Köln"}}
    kind, place = "response.function_call_arguments", {"output_index": 1, "item_id": "fc_c1"}
    for events in (
        [event("response.output_item.done", output_index=1, item=whole)],
        [ADDED, event(f"{kind}.delta", **place, delta=7)],
        [ADDED, event(f"{kind}.done", **place, arguments=whole["arguments"])],
    ):
        with pytest.raises(Unavailable):
            decode([*events, completed()])


def test_a_refusal_is_text() -> None:
    refusal = {**message_item(""), "content": [{"type": "refusal", "refusal": "No."}]}
    deltas = [event("response.refusal.delta", **IN_TEXT, delta=part) for part in ("N", "o.")]
    whole = event("response.refusal.done", **IN_TEXT, refusal="No.")
    streams = [[*deltas, whole, completed(refusal)], [whole, completed()], [completed(refusal)]]

    assert [decode(stream)[0] for stream in streams] == ["No."] * 3


def test_each_delta_is_passed_on_with_the_name_of_the_model() -> None:
    reader, decoder = EventReader(), StreamDecoder(RESPONSES, "m")
    refusal = event("response.refusal.delta", **IN_TEXT, delta="No.")
    deltas = list(decoder.decode_all(reader.feed(b"".join([*STREAM[:4], refusal]))))

    assert [delta.content for delta in deltas] == ["Köln ", "😀", " [a.md].", "No."]
    assert {delta.model for delta in deltas} == {"gpt-5.4-pro-2026-03-05"}


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (completed(message_item("Yes")), "stop"),
        (incomplete("max_output_tokens"), "length"),
        (incomplete("steered"), "length"),
        (incomplete("content_filter"), "content_filter"),
    ],
)
def test_the_last_event_has_the_finish_reason(end: bytes, reason: str) -> None:
    text, _, done = decode([text_delta("Yes"), end])

    assert (text, done.finish_reason) == ("Yes", reason)


def test_nothing_is_read_after_the_last_event() -> None:
    events = [text_delta("Yes"), completed(message_item("Yes")), text_delta("No"), b"data: {\n\n"]

    assert decode(events)[0] == decode([b"".join(events)])[0] == "Yes"


def test_what_has_no_part_in_an_answer_is_read_past() -> None:
    noise = [
        b": a comment\r\n\r\n",
        b"id: 7\r\nretry: 1\r\n\r\n",
        event("response.reasoning_text.delta", item_id="rs_1", delta="Hm."),
        event("response.new.delta", delta="Hm."),
        event("response.output_item.added", output_index=0, item={"type": "new"}),
        event("response.output_item.done", output_index=0, item={"type": "new"}),
        event("response.content_filters", content_filters=[{"blocked": False}]),
        b"data: [DONE]\r\n\r\n",
    ]
    events = [text_delta("Yes").replace(b"\n", b"\r\n"), completed(message_item("Yes"))]

    assert decode([*noise, events[0], *noise, events[1], *noise])[0] == "Yes"
    with pytest.raises(Unavailable):  # the mark of chat completions ends nothing here
        decode([events[0], b"data: [DONE]\n\n"])


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("rate_limit_exceeded", 429),
        ("content_filter", 400),
        ("context_length_exceeded", 400),
        ("invalid_prompt", 400),
        ("invalid_image_format", 400),
        ("server_error", 503),
        ("a_new_one", 503),
        (None, 503),
    ],
)
def test_an_error_has_the_status_of_its_code(code: Any, status: int) -> None:
    fields = {"code": code, "message": "upstream's own words", "param": None}
    forms = [error(fields), failed(code), event("error", error=fields), event("x", error=fields)]
    for form in forms:
        with pytest.raises(ChatError) as raised:
            decode([text_delta("Yes"), form])

        assert raised.value.status == status
        assert "upstream" not in f"{raised.value.message} {raised.value.cause}"


def test_a_whole_response_is_read_like_a_stream() -> None:
    def read(**body: Any) -> tuple[str, list[ToolCall], Done]:
        reader, decoder = BodyReader(), StreamDecoder(RESPONSES, "m")
        reader.feed(json.dumps(body).encode())
        deltas = list(decoder.decode_all(reader.end()))
        return (*joined(deltas), decoder.done())

    text, calls, done = read(**response("completed", message_item(TEXT), ITEM))
    assert (text, calls, done.finish_reason) == (TEXT, [CALL], "tool_calls")
    details = {"reason": "max_output_tokens"}
    cut = read(**response("incomplete", message_item("Y"), incomplete_details=details))
    assert (cut[0], cut[2].finish_reason) == ("Y", "length")
    for status in ("queued", "in_progress", "cancelled"):
        with pytest.raises(Unavailable):
            read(**response(status))
    with pytest.raises(ContentFiltered):
        read(**response("failed", error={"code": "content_filter"}))


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": 1}, {**USAGE, "output_tokens": "3"}])
def test_usage_of_another_form_is_unknown(usage: Any) -> None:
    end = event("response.completed", response=response("completed", usage=usage))

    assert decode([text_delta("Yes"), end])[2].usage is None


def test_no_event_of_another_form_is_more_than_an_error() -> None:
    results: Counter[str] = Counter()
    events = [json.loads(data.partition(b"data: ")[2]) for data in STREAM]

    @st.composite
    def nearly_right(draw: Any) -> list[Any]:
        value: list[Any] = json.loads(json.dumps(events))
        for _ in range(draw(st.integers(0, 2))):
            place = draw(st.sampled_from(value))
            while (inner := place[draw(st.sampled_from(sorted(place)))]) and type(inner) is dict:
                place = inner
            place[draw(st.sampled_from(sorted(place)))] = draw(junk)
        return value

    @FUZZ
    @given(nearly_right())
    def each(values: list[Any]) -> None:
        try:
            decode([b"data: " + json.dumps(value).encode() + b"\n\n" for value in values])
            results["answer"] += 1
        except ChatError:
            results["error"] += 1

    each()
    assert results.total() >= EXAMPLES
    assert min(results.values()) >= EXAMPLES / 10, results
