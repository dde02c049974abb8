"""What arrives together leaves together, a line each, and never later than it came."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from shared.domain.errors import ChatError, Unavailable
from shared.domain.events import Delta, Done
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.models.formats.openai import OPENAI
from shared.models.openai.stream_decoder import StreamDecoder
from shared.protocols.ai_chat import output_text
from shared.protocols.ai_chat.response import CURRENT
from shared.protocols.handler import ChatProtocol
from shared.rag.citations import number_citations
from shared.rag.followups import extract_followups
from tests.support.fakes import ScriptStep, play

REQUEST = ChatRequest((Message("user", "How much?"),))
DELTA = b'{"choices":[{"delta":{"content":"%s"}}]}'
STOP = b'{"choices":[{"delta":{},"finish_reason":"stop"}]}'


def content_of(line: Any) -> Any:
    delta = line.get("delta", {})
    return delta if isinstance(delta, str) else delta.get("content")


def chunks_of(*script: ScriptStep, protocol: ChatProtocol = CURRENT) -> list[list[Any]]:
    """The contents of the lines of each chunk of a stream, which passes the filters of the text."""

    async def read() -> list[bytes]:
        events = number_citations(extract_followups(play(script)))
        stream, chunks = protocol.write_stream(REQUEST, events), []
        try:
            async for chunk in stream.chunks:
                chunks.append(chunk)
        except ChatError as failure:
            chunks.append(stream.write_last({"error": type(failure).__name__}))
        return chunks

    lines = [list(map(json.loads, chunk.splitlines())) for chunk in asyncio.run(read())]
    return [
        [line["error"] if "error" in line else content_of(line) for line in each] for each in lines
    ]


@pytest.mark.parametrize("protocol", [CURRENT, output_text.OUTPUT_TEXT], ids=lambda each: each.name)
def test_tokens_that_arrived_together_are_lines_of_one_chunk(protocol: ChatProtocol) -> None:
    script = (Delta("a", more=True), Delta("b", more=True), Delta("c"), Delta("d"), Done())
    chunks = chunks_of(*script, protocol=protocol)

    assert chunks == [["a", "b", "c"], ["d"], [None]]


def test_text_is_not_held_back_with_what_may_become_a_question() -> None:
    chunks = chunks_of(Delta("Yes. ", more=True), Delta("<<How"), Delta(" much?>>"), Done())

    assert chunks == [["Yes."], [None]]


@pytest.mark.parametrize("protocol", [CURRENT, output_text.OUTPUT_TEXT], ids=lambda each: each.name)
def test_text_before_a_failure_is_sent_before_the_error(protocol: ChatProtocol) -> None:
    script = (Delta("a", more=True), Delta("b", more=True), Unavailable())
    chunks = chunks_of(*script, protocol=protocol)

    assert chunks == [["a", "b"], ["Unavailable"]]


@pytest.mark.parametrize("last", [STOP, b"[DONE]"], ids=["stop", "done"])
def test_the_last_token_of_a_chunk_is_marked_whatever_follows_it(last: bytes) -> None:
    decoder = StreamDecoder(OPENAI, "m")

    deltas = list(decoder.decode_all([DELTA % b"a", DELTA % b"b", last]))

    assert [(delta.content, delta.more) for delta in deltas] == [("a", True), ("b", False)]


def test_what_came_before_an_invalid_object_is_not_lost() -> None:
    deltas, decoder = [], StreamDecoder(OPENAI, "m")

    with pytest.raises(ChatError):
        for delta in decoder.decode_all([DELTA % b"a", DELTA % b"b", b"{", DELTA % b"c"]):
            deltas.append((delta.content, delta.more))

    assert deltas == [("a", True), ("b", False)]


def test_nothing_is_read_after_the_end_of_the_answer() -> None:
    decoder = StreamDecoder(OPENAI, "m")

    deltas = list(decoder.decode_all([DELTA % b"a", b"[DONE]", DELTA % b"b"]))

    assert [delta.content for delta in deltas] == ["a"]
