"""With consent a copy has the turns before its question, up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.app import handle_call
from shared.domain import errors
from shared.memory.base import Memory, Turn
from shared.protocols.feedback.copies import CopiesConfig
from tests.support.answer_copies import Copies
from tests.support.calls import ANNA, call
from tests.support.fakes import FailingInteractions
from tests.support.feedback import make_desk
from tests.support.stores import OpenStore
from tests.support.stores import account as account
from tests.support.stores import opened as opened

REPLACED = '{"sources": [], "replaced": true}'


async def fill(memory: Memory, *turns: Turn) -> None:
    """Store a conversation of Anna's."""
    id = (await memory.conversations.create("anna", "")).id
    for turn in turns:
        await memory.interactions.add("anna", id, turn)


def numbered(*numbers: int, **more: Any) -> list[Turn]:
    return [Turn(f"Question {n}?", "", f"Answer {n}.", request=f"r{n}", **more) for n in numbers]


async def rate(memory: Memory, copies: Copies, request: str) -> int:
    app = make_desk(memory, configs=(CopiesConfig(copies, accepts_new=True),)).app
    body = {"request_id": request, "rating": "down", "keep_copy": True}
    return (await handle_call(app, call("/feedback", body, ANNA))).status


@pytest.fixture
def copied(opened: OpenStore) -> Callable[..., list[tuple[str, str]]]:
    """Returns what a copy has of the turns before the one that is rated."""

    def go(*turns: Turn, rated: str) -> list[tuple[str, str]]:
        async def within() -> list[tuple[str, str]]:
            copies = Copies()
            async with opened() as memory:
                await fill(memory, *numbered(100))  # another conversation
                await fill(memory, *turns)
                assert await rate(memory, copies, rated) == 200
            (copy,) = copies.kept.values()
            return [(each.question, each.answer) for each in copy.earlier]

        return asyncio.run(within())

    return go


def test_the_last_three_turns_are_copied(copied: Any) -> None:
    turns = numbered(*range(1, 8))

    assert copied(*turns, rated="r1") == []
    assert copied(*turns, rated="r2") == [("Question 1?", "Answer 1.")]
    assert copied(*turns, rated="r5") == [(f"Question {n}?", f"Answer {n}.") for n in (2, 3, 4)]


def test_turns_before_an_old_answer_are_found(copied: Any) -> None:
    assert copied(*numbered(*range(1, 110)), rated="r2") == [("Question 1?", "Answer 1.")]


def test_what_the_model_did_not_get_is_not_copied(copied: Any) -> None:
    incomplete = Turn("Question 2?", "", " ", request="r2")
    replaced = numbered(3, additional_info=REPLACED)
    turns = [*numbered(1), incomplete, *replaced, *numbered(4, 5)]

    assert copied(*turns, rated="r5") == [
        ("Question 1?", "Answer 1."),
        ("Question 4?", "Answer 4."),
    ]


def test_all_have_four_thousand_characters_together(copied: Any) -> None:
    long = Turn("How?", "", "a" * 3000, request="r1")
    longer = Turn("Why?", "", "b" * 2000, request="r2")
    earlier = copied(*numbered(0), long, longer, *numbered(3), rated="r3")

    assert earlier == [("How?", "a" * (4000 - 2004 - 4)), ("Why?", "b" * 2000)]
    assert sum(map(len, earlier[0] + earlier[1])) == 4000


def test_a_question_beyond_the_limit_has_no_turn(copied: Any) -> None:
    long = Turn("c" * 5000, "", "That.", request="r1")

    assert copied(*numbered(0), long, *numbered(2), rated="r2") == []


def test_a_conversation_that_is_deleted_meanwhile_leaves_the_copy(opened: OpenStore) -> None:
    async def work() -> None:
        copies = Copies()
        async with opened() as memory:
            await fill(memory, *numbered(1, 2))
            deleted = FailingInteractions(memory.interactions, errors.NotFound(), reading=True)
            broken = replace(memory, interactions=deleted)
            assert await rate(broken, copies, "r2") == 200
        (copy,) = copies.kept.values()
        assert (copy.question, copy.earlier) == ("Question 2?", ())

    asyncio.run(work())
