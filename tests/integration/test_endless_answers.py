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
from shared.models.base import MAX_LENGTH, PART_LENGTH, ModelStream
from shared.models.openai.stream_decoder import MAX_BYTES
from shared.rag.model_stream import check_stream
from tests.support.calls import BufferedReply, call, run_calls
from tests.support.flavors import FLAVORS
from tests.support.providers import provider_entry, provider_settings, run_gateways
from tests.support.upstream import (
    WORDS,
    Step,
    http_chunk,
    response_head,
)

SENT = 3 * MAX_LENGTH  # what each server sends of its answer, in bytes


def endless(flavor: str, make_event: Callable[[int], bytes]) -> list[Step]:
    """A response that does not end before SENT bytes."""
    size = len(make_event(0))
    return list(FLAVORS[flavor].end(make_event(number) for number in range(SENT // size + 1)))


def ask_twice(flavor: str, steps: list[Step], **entry: Any) -> list[BufferedReply]:
    """The replies, whole and streamed, of an app whose model sends this."""
    with run_gateways(flavor) as (server,):
        server.plan = [list(steps), list(steps)]
        settings = provider_settings(provider_entry(flavor, server, **entry))
        return run_calls(settings, call("/chat"), call("/chat/stream"))


ENDLESS = [(flavor, kind) for flavor, server in FLAVORS.items() for kind in server.ENDLESS]


@pytest.mark.parametrize(("flavor", "kind"), ENDLESS, ids=[" ".join(each) for each in ENDLESS])
def test_an_endless_answer_ends_at_the_limit(flavor: str, kind: str) -> None:
    whole, stream = ask_twice(flavor, endless(flavor, FLAVORS[flavor].ENDLESS[kind]))

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
