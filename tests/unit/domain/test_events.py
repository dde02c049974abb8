"""The parts of an answer are joined in a time that grows with their number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shared.domain.events import Answer, Delta, Done, collect
from shared.domain.messages import ToolCall
from tests.support.fakes import ScriptStep, play
from tests.support.growth import check_growth


def test_the_arguments_of_a_tool_may_come_in_many_parts() -> None:
    def read(count: int) -> Callable[[], Answer]:
        parts = [ToolCall(0, "a", "f"), *[ToolCall(0, arguments="x" * 20)] * count]
        events: list[ScriptStep] = [*(Delta(tool_calls=(part,)) for part in parts), Done()]
        return lambda: asyncio.run(collect(play(events)))

    answer = check_growth(read, 100_000)

    assert answer.tool_calls == (ToolCall(0, "a", "f", "x" * 2_000_000),)


def test_what_stands_beside_a_message_may_come_in_many_parts() -> None:
    part = {"thinking": "x" * 20, "logprobs": [1], "model": {"n": 1}}

    def read(count: int) -> Callable[[], Answer]:
        deltas = [Delta(message_extra=part)] * count
        events: list[ScriptStep] = [*deltas, Delta(message_extra={"model": "m"}), Done()]
        return lambda: asyncio.run(collect(play(events)))

    answer = check_growth(read, 100_000)

    assert answer.message_extra == {
        "thinking": "x" * 2_000_000,
        "logprobs": [1] * 100_000,
        "model": "m",
    }
