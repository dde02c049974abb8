"""Chats of the AI SDK that name a stored conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain import errors
from shared.domain.events import Delta, Done
from shared.http.auth import AccessPolicy
from shared.memory.base import Interaction, Interactions, Memory, PageRequest, Turn
from shared.memory.chat_history import NOT_CREATED, is_replaced
from shared.protocols.exchange import App
from tests.support.calls import ANNA, BEN, SINGLE_USER, ask, call, local_service, read_events
from tests.support.fakes import FailingConversations, FakeModel, make_rag
from tests.support.stores import sqlite_memory

OWNER = "anna"
SIGN_IN = AccessPolicy(sign_in=True)
END = b"data: [DONE]\n\n"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with sqlite_memory(tmp_path) as memory:
        yield memory


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": text}]}


def service(memory: Memory | None, model: FakeModel | None = None) -> App:
    return local_service(
        make_rag(model or FakeModel((Delta("A2"), Done()))), SIGN_IN, memory=memory
    )


def send(app: App, *texts: str, headers: Any = ANNA, **more: Any) -> list[Any]:
    """The events of an answer. Texts are the user's and the assistant's in turn."""
    messages = [message(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]
    body = {"messages": messages, **more}
    reply = ask(call("/api/chat", body, headers), app)

    assert reply.status == 200, reply.data
    return read_events(replace(reply, data=reply.data.removesuffix(END)))


def begin(memory: Memory, *turns: tuple[str, str]) -> str:
    """A stored conversation of Anna's with these turns."""

    async def store() -> str:
        conversation = await memory.conversations.create(OWNER, "Q")
        for question, answer in turns:
            turn = Turn(question, "", answer, "chat", '["a.md: text"]')
            await memory.interactions.add(OWNER, conversation.id, turn)
        return conversation.id

    return asyncio.run(store())


def stored(memory: Memory, conversation: str) -> list[tuple[str, str, bool]]:
    """The turns in their order, each with whether another one replaces it."""
    page = PageRequest(0, 100)
    turns: tuple[Interaction, ...] = asyncio.run(
        memory.interactions.list(OWNER, conversation, page, newest_first=False)
    )
    return [(it.turn.input, it.turn.response, is_replaced(it.turn)) for it in turns]


def prompt(model: FakeModel) -> list[str]:
    """What the model gets before the question, without instructions."""
    return [each.content for each in model.calls[-1].messages[1:-1]]


def test_chat_that_names_no_conversation_is_not_stored(memory: Memory) -> None:
    events = send(service(memory), "Q1")

    assert "conversation_id" not in events[0]["messageMetadata"]
    assert asyncio.run(memory.conversations.list(OWNER, PageRequest())) == ()


def test_conversation_begins_and_goes_on(memory: Memory) -> None:
    start, *_ = send(service(memory), "Q1", conversation_id=None)
    conversation = start["messageMetadata"]["conversation_id"]
    start, *_ = send(service(memory), "Q1", "A2", "Q2", conversation_id=conversation)

    assert "conversation_id" not in start["messageMetadata"]
    assert stored(memory, conversation) == [("Q1", "A2", False), ("Q2", "A2", False)]


def test_question_alone_gets_the_stored_turns(memory: Memory) -> None:
    conversation, model = begin(memory, ("Q1", "A1")), FakeModel((Delta("A2"), Done()))
    body = {"message": message("user", "Q2"), "conversation_id": conversation}
    reply = ask(call("/api/chat", body, ANNA), service(memory, model))

    assert reply.status == 200
    assert prompt(model) == ["Q1", "A1"]
    assert stored(memory, conversation)[-1] == ("Q2", "A2", False)


class Unmarked:
    """Interactions of a memory whose `annotate` raises."""

    def __init__(self, inner: Interactions) -> None:
        self.add, self.get, self.list, self.delete = inner.add, inner.get, inner.list, inner.delete
        self.find, self.rate = inner.find, inner.rate

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        raise errors.Unavailable


REPEATED = {"trigger": "regenerate-message"}
EDITED = {"trigger": "submit-message", "messageId": "m3"}


@pytest.mark.parametrize("how", [REPEATED, EDITED], ids=["repeated", "edited"])
def test_turns_that_the_page_no_longer_has_are_replaced(
    memory: Memory, how: dict[str, str]
) -> None:
    conversation = begin(memory, ("Q1", "A1"), ("Q2", "old"), ("Q3", "old"))
    model = FakeModel((Delta("A2"), Done()))
    send(service(memory, model), "Q1", "A1", "Q2", conversation_id=conversation, **how)

    assert prompt(model) == ["Q1", "A1"]
    assert stored(memory, conversation) == [
        ("Q1", "A1", False),
        ("Q2", "old", True),
        ("Q3", "old", True),
        ("Q2", "A2", False),
    ]
    page = PageRequest(2, 1)
    (turn,) = asyncio.run(memory.interactions.list(OWNER, conversation, page))
    assert "a.md: text" in turn.turn.additional_info


def test_first_question_is_replaced_without_its_history(memory: Memory) -> None:
    conversation, model = begin(memory, ("Q1", "old")), FakeModel((Delta("A2"), Done()))
    send(service(memory, model), "Q1 again", conversation_id=conversation, **EDITED)

    assert prompt(model) == []
    assert stored(memory, conversation) == [("Q1", "old", True), ("Q1 again", "A2", False)]


def test_nothing_is_replaced_if_no_model_accepts_the_question(memory: Memory) -> None:
    conversation = begin(memory, ("Q1", "A1"))
    body = {"messages": [message("user", "Q1")], "conversation_id": conversation, **REPEATED}
    app = service(memory, FakeModel((errors.TooManyRequests(),)))

    assert ask(call("/api/chat", body, ANNA), app).status == 429
    assert stored(memory, conversation) == [("Q1", "A1", False)]


def test_answer_is_kept_if_a_turn_cannot_be_marked(memory: Memory) -> None:
    conversation = begin(memory, ("Q1", "old"))

    app = service(replace(memory, interactions=Unmarked(memory.interactions)))
    *_, last = send(app, "Q1", conversation_id=conversation, **REPEATED)

    assert last["type"] == "finish"
    assert stored(memory, conversation) == [("Q1", "old", False), ("Q1", "A2", False)]


def test_conversation_of_another_person_is_not_found(memory: Memory) -> None:
    conversation = begin(memory, ("Q1", "A1"))
    for more in ({}, REPEATED, {"messages": None, "message": message("user", "Q2")}):
        body = {"messages": [message("user", "Q2")], "conversation_id": conversation, **more}
        reply = ask(call("/api/chat", body, BEN), service(memory))

        assert (reply.status, reply.media_type) == (404, "text/plain")
        assert reply.data == f"Conversation [{conversation}] not found".encode()
    assert stored(memory, conversation) == [("Q1", "A1", False)]


def test_conversation_needs_a_person(memory: Memory) -> None:
    body = {"messages": [message("user", "Q1")], "conversation_id": None}

    assert ask(call("/api/chat", body), service(memory)).status == 401


def test_laptop_stores_for_its_only_person(memory: Memory) -> None:
    app = replace(service(memory), access=SINGLE_USER)
    start, *_ = send(app, "Q1", conversation_id=None, headers={"content-type": "application/json"})

    assert start["messageMetadata"]["conversation_id"]


def test_name_of_a_conversation_is_ignored_without_a_store() -> None:
    start, *_ = send(service(None), "Q1", conversation_id=None)

    assert "conversation_id" not in start["messageMetadata"]


def test_notice_says_that_the_conversation_could_not_be_begun(memory: Memory) -> None:
    failing = FailingConversations(memory.conversations, errors.Unavailable())
    events = send(service(replace(memory, conversations=failing)), "Q1", conversation_id=None)

    assert {"type": "data-notice", "data": NOT_CREATED} in events


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"message": message("user", "Q")}, "messages: is required"),
        ({"conversation_id": None}, "messages: is required"),
        (
            {"message": message("user", "Q"), "conversation_id": "1", **REPEATED},
            "messages: is required",
        ),
        (
            {"message": {"role": "user"}, "conversation_id": "1"},
            "message.parts: is required; messages with `content` in place of `parts` go to "
            "POST /chat",
        ),
        (
            {"message": message("user", ""), "conversation_id": "1"},
            "message.parts: must have a text",
        ),
        ({"conversation_id": 7}, "conversation_id: must be a string"),
    ],
)
def test_wrong_name_or_question_is_refused(memory: Memory, body: Any, sentence: str) -> None:
    reply = ask(call("/api/chat", body, ANNA), service(memory))

    assert (reply.status, reply.data.decode()) == (400, sentence)
