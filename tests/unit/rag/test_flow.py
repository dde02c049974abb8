"""The transforms around an answer, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from shared.domain.errors import DeadlineExceeded
from shared.domain.events import Delta, Done, Events
from shared.domain.messages import Message
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest
from shared.memory.base import PageRequest
from shared.memory.chat_history import AnswerStore, ChatHistory
from shared.rag.citations import number_citations
from shared.rag.flow import StreamOptions, stream_answer
from shared.telemetry.access_log import AccessLog
from tests.support.fakes import FakeModel, make_rag
from tests.support.stores import sqlite_memory

TRANSFORMS = [number_citations]
REQUEST = ChatRequest((Message("user", "What is it?"),), Overrides(suggest_followup_questions=True))


def stream(
    model: FakeModel,
    record: AccessLog,
    seconds: float,
    history: AnswerStore | None = None,
    transforms: Sequence[Callable[[Events], Events]] = TRANSFORMS,
) -> Events:
    """Stream an answer whose model has these seconds, and its store twice as many."""
    now = asyncio.get_running_loop().time()
    options = StreamOptions(REQUEST, record, now + 2 * seconds, now + seconds, history, transforms)
    return stream_answer(make_rag(model), options)


def new_record() -> AccessLog:
    return AccessLog("call-1", "POST", "/chat")


@pytest.mark.parametrize("text", ["The limit is x <", "The limit is in [doc"])
def test_text_that_a_transform_holds_back_is_sent_when_the_time_is_over(text: str) -> None:
    async def go() -> str:
        model, sent = FakeModel([Delta(text), asyncio.Event()]), ""
        with pytest.raises(DeadlineExceeded):
            async for event in stream(model, new_record(), 0.5):
                sent += event.content if isinstance(event, Delta) else ""
        return sent

    assert asyncio.run(go()) == text


def test_stored_text_has_no_marked_questions_and_no_numbers_of_a_protocol(tmp_path: Path) -> None:
    model = FakeModel([Delta("Yes [plans/plus.pdf#page=2]."), Delta("<<How much?>>"), Done("stop")])

    async def go(history: ChatHistory) -> tuple[str, str]:
        sent = ""
        async for event in stream(model, new_record(), 60, history):
            sent += event.content if isinstance(event, Delta) else ""
        memory = history.memory
        (conversation,) = await memory.conversations.list("anna", PageRequest())
        (turn,) = await memory.interactions.list("anna", conversation.id, PageRequest())
        return sent, turn.turn.response

    with sqlite_memory(tmp_path) as memory:
        sent, stored = asyncio.run(go(ChatHistory(memory, "anna", None, streams=True)))

    assert (sent, stored) == ("Yes [doc1].", "Yes [plans/plus.pdf#page=2].")


def test_store_that_hangs_ends_at_the_deadline_of_the_request() -> None:
    class Hanging:
        async def store_answer(self, _: ChatRequest, events: Events) -> Events:
            async for event in events:
                yield event
            await asyncio.Event().wait()

    async def go() -> list[Any]:
        events = stream(FakeModel([Delta("Yes."), Done("stop")]), new_record(), 0.2, Hanging())
        received = []
        with pytest.raises(DeadlineExceeded):
            async for event in events:
                received.append(type(event).__name__)
        return received

    assert asyncio.run(go()) == ["Context", "Delta", "Done"]


def test_log_records_what_is_sent_when_it_is_sent() -> None:
    record = new_record()

    async def delayed(events: Events) -> Events:
        async for event in events:
            await asyncio.sleep(0.1)
            yield event

    async def go() -> None:
        async for _ in stream(
            FakeModel([Delta("Yes."), Done("stop")]), record, 60, transforms=[delayed]
        ):
            pass

    asyncio.run(go())

    assert record.hits == 2
    assert record.first_event_seconds is not None
    assert record.first_event_seconds >= 0.1
