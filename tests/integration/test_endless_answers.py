"""Models that never end their answer: the app ends it at a limit, in every format.

Each server stops at several times the limit, so that a missing limit fails a test instead of
filling the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from shared.domain.errors import Unavailable
from shared.domain.events import Delta, Done, collect
from shared.domain.messages import ToolCall
from shared.models.answer_length import MAX_LENGTH, PART_LENGTH
from shared.models.base import ModelStream
from shared.models.openai.stream_decoder import MAX_BYTES
from shared.rag.flow import check_stream
from tests.support.calls import BufferedReply, call, run_calls
from tests.support.flavors.aog import aog_event
from tests.support.flavors.ollama import LAST_LINE, message, ollama_line, ollama_stream
from tests.support.providers import provider_entry, provider_settings, run_gateways
from tests.support.responses_upstream import call_events, completed, event, text_delta
from tests.support.upstream import (
    STOP,
    Step,
    chunk,
    http_chunk,
    response_head,
    sse_event,
    stream_response,
)

SENT = 3 * MAX_LENGTH  # what each server sends of its answer, in bytes
WORDS = "word " * 2000


def openai_delta(**fields: Any) -> bytes:
    return sse_event(chunk(delta=fields))


ARGUMENTS = {"index": 0, "id": "c", "function": {"name": "f", "arguments": WORDS}}
START_OF_CALL = call_events(0, "c", "f")[0]


def arguments_delta(_: int) -> bytes:
    kind = "response.function_call_arguments.delta"
    return event(kind, output_index=0, item_id="fc_c", delta=WORDS)


# By the flavor and by what has no end: the event of a number.
ENDLESS: Mapping[tuple[str, str], Callable[[int], bytes]] = {
    ("openai", "text"): lambda _: openai_delta(content=WORDS),
    ("openai", "refusal"): lambda _: openai_delta(refusal=WORDS),
    ("openai", "arguments"): lambda _: openai_delta(tool_calls=[ARGUMENTS]),
    ("openai", "reasoning"): lambda _: openai_delta(reasoning_content=WORDS),
    ("openai", "fields with text"): lambda n: sse_event({**chunk("Hi"), f"x{n}": WORDS}),
    ("openai", "fields without text"): lambda n: sse_event({**chunk(), f"x{n}": WORDS}),
    ("responses", "text"): lambda _: text_delta(WORDS),
    ("responses", "arguments"): arguments_delta,
    ("ollama", "text"): lambda _: ollama_line(**message(WORDS)),
    ("ollama", "arguments"): lambda _: ollama_line(**message(tool_calls=[ARGUMENTS])),
    ("ollama", "reasoning"): lambda _: ollama_line(**message(thinking=WORDS)),
    ("aog", "text"): lambda _: aog_event(WORDS),
    ("aog", "arguments"): lambda _: aog_event(**message(tool_calls=[ARGUMENTS])),
    ("aog", "fields without text"): lambda n: aog_event(**{f"x{n}": WORDS}),
}
ENDS = {
    "openai": sse_event(STOP),
    "responses": completed(),
    "ollama": ollama_line(**LAST_LINE),
    "aog": aog_event(finished=True),
}


def endless(flavor: str, make_event: Callable[[int], bytes]) -> list[Step]:
    """A response that does not end before SENT bytes."""
    first = START_OF_CALL if flavor == "responses" else b""
    size = len(make_event(0))
    events = [make_event(number) for number in range(SENT // size + 1)]
    steps = [each for each in (first, *events, ENDS[flavor]) if each]
    return ollama_stream(*steps) if flavor == "ollama" else stream_response(steps)


def ask_twice(flavor: str, steps: list[Step], **entry: Any) -> list[BufferedReply]:
    """The replies, whole and streamed, of an app whose model sends this."""
    with run_gateways(flavor) as (server,):
        server.plan = [list(steps), list(steps)]
        settings = provider_settings(provider_entry(flavor, server, **entry))
        return run_calls(settings, call("/chat"), call("/chat/stream"))


@pytest.mark.parametrize(
    ("flavor", "kind"), list(ENDLESS), ids=[" ".join(each) for each in ENDLESS]
)
def test_an_endless_answer_ends_at_the_limit(flavor: str, kind: str) -> None:
    whole, stream = ask_twice(flavor, endless(flavor, ENDLESS[flavor, kind]))

    assert whole.status == 503
    assert f"{MAX_LENGTH:,} characters" in whole.json["error"]
    assert stream.lines[-1] == whole.json
    assert len(stream.data) < 2 * MAX_LENGTH


LINE = b'data: {"choices": [{"delta": {"content": "' + WORDS.encode()
JSON_TYPE = {"Content-Type": "application/json"}
SYNC = {"properties": {"supported_response_mode": ["sync"]}}
# The beginning of a response, and what is repeated after it.
UNBROKEN: Mapping[str, tuple[bytes, bytes, dict[str, Any]]] = {
    "a line": (response_head(200), LINE, {}),
    "a body": (response_head(200, JSON_TYPE), LINE.removeprefix(b"data: "), SYNC),
}


@pytest.mark.parametrize("kind", UNBROKEN)
def test_a_response_without_a_line_end_ends_at_the_limit(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    head, begin, entry = UNBROKEN[kind]
    words = [WORDS.encode()] * (SENT // len(WORDS))
    pieces: list[Step] = [http_chunk(each) for each in (begin, *words, b'"}}]}')]
    whole, stream = ask_twice("openai", [head, *pieces, b"0\r\n\r\n"], **entry)

    assert whole.status == 503
    assert f"{MAX_BYTES:,} bytes" in whole.json["error"]
    assert f"{MAX_BYTES:,} bytes" in caplog.text
    assert stream.lines[-1] == whole.json


async def repeat(delta: Delta, times: int) -> ModelStream:
    for _ in range(times):
        yield delta
    yield Done()


@pytest.mark.parametrize("delta", [Delta(), Delta(tool_calls=(ToolCall(0),))], ids=["text", "call"])
def test_an_endless_answer_of_empty_parts_ends_at_the_limit(delta: Delta) -> None:
    with pytest.raises(Unavailable, match="longer than the limit"):
        asyncio.run(collect(check_stream(repeat(delta, MAX_LENGTH // PART_LENGTH + 1))))


def test_the_longest_answers_of_models_are_complete() -> None:
    answer = asyncio.run(collect(check_stream(repeat(Delta(" token"), 128_000))))

    assert answer.content == " token" * 128_000
