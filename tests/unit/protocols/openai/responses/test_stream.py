"""A response is read and streamed in a time that grows with its length, and not with its square."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from shared.domain.events import Context, Delta, Done, Events
from shared.domain.messages import Message, ToolCall
from shared.domain.request import ChatRequest
from shared.protocols.openai.responses.items import call_message, join_calls
from shared.protocols.openai.responses.request import ResponseState
from shared.protocols.openai.responses.stream import write_stream
from tests.support.fakes import PLUS, ScriptStep, play
from tests.support.growth import check_growth

QUESTION = ChatRequest((Message("user", "?"),), state=ResponseState(id="1"))


async def answer(script: Sequence[ScriptStep]) -> Events:
    """An answer with fifty sources."""
    yield Context((PLUS,) * 50, (), "m")
    async for event in play([*script, Done()]):
        yield event


def write(script: Sequence[ScriptStep]) -> bytes:
    """The stream of an answer."""

    async def join() -> bytes:
        return b"".join([part async for part in write_stream(QUESTION, answer(script)).chunks])

    return asyncio.run(join())


PIECES: dict[str, Callable[[int], list[str]]] = {
    "brackets": lambda count: ["[" * 20] * count,
    "open markers": lambda count: ["[" + "x" * 19, *["x" * 20] * 200] * (count // 200),
    "markers": lambda count: [f"[{PLUS.sourcepage}]"] * (count // 4),
}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_the_text_of_a_response_may_come_in_many_pieces(pieces: Callable[[int], list[str]]) -> None:
    def read(count: int) -> Callable[[], bytes]:
        script = [*map(Delta, pieces(count))]
        return lambda: write(script)

    assert b"response.completed" in check_growth(read, 100_000)


def test_the_arguments_of_a_call_may_come_in_many_pieces() -> None:
    def read(count: int) -> Callable[[], bytes]:
        parts = [ToolCall(0, "a", "f"), *[ToolCall(0, arguments="x" * 20)] * count]
        script = [Delta(tool_calls=(part,)) for part in parts]
        return lambda: write(script)

    assert b"response.completed" in check_growth(read, 100_000)


def test_many_calls_may_follow_each_other_in_a_request() -> None:
    call = call_message([ToolCall(0, "a", "f")])

    def read(count: int) -> Callable[[], list[Message]]:
        return lambda: [*join_calls([call] * count)]

    (message,) = check_growth(read, 40_000)

    assert [each.index for each in message.tool_calls] == [*range(40_000)]
