"""Feedback is stored with the answer that it is about, for its owner alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain import errors
from shared.memory.base import Interaction, Interactions, Memory
from shared.protocols.opensearch.routes import ROUTES as OPENSEARCH
from tests.support.calls import ANNA, BEN, JSON, ask, call, local_service
from tests.support.fakes import FailingInteractions, make_rag
from tests.support.feedback import STORED, Desk, make_desk
from tests.support.stores import sqlite_memory

pytestmark = pytest.mark.part("conversations")
UI_MESSAGE = {"role": "user", "parts": [{"type": "text", "text": "What is in Plus?"}]}
STORING = [
    pytest.param("/chat", STORED, id="chat"),
    pytest.param("/chat/stream", STORED, id="chat stream"),
    pytest.param(
        "/api/chat",
        {"messages": [UI_MESSAGE], "conversation_id": None},
        id="ui message stream",
        marks=pytest.mark.part("ai-sdk"),
    ),
    pytest.param(
        "/v1/responses",
        {"model": "m", "input": "What is in Plus?"},
        id="responses",
        marks=pytest.mark.part("responses"),
    ),
]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with sqlite_memory(tmp_path) as memory:
        yield make_desk(memory)


class UnreadInteractions(FailingInteractions):
    """Interactions of a memory whose `find` raises."""

    def __init__(self, inner: Interactions, error: Exception) -> None:
        super().__init__(inner, error)
        self.find = self.fail

    async def fail(self, owner: str, request: str) -> Interaction:
        raise self.error


def feedback(comment: str = "", *reasons: str, rating: str = "down") -> dict[str, Any]:
    texts = {"rating": rating, "reasons": list(reasons), "comment": comment}
    return {**texts, "keep_copy": False}


@pytest.mark.parametrize(("route", "body"), STORING)
def test_the_stored_answer_of_each_route_can_be_rated(desk: Desk, route: str, body: Any) -> None:
    reply = desk.send(call(route, body, ANNA))
    id = reply.headers["x-request-id"]

    assert desk.rate(id, reasons=["incomplete"], comment=" The fees! ").status == 204
    assert desk.stored() == [feedback("The fees!", "incomplete")]


@pytest.mark.part("opensearch")
def test_the_answer_of_a_pipeline_can_be_rated(desk: Desk) -> None:
    conversation = asyncio.run(desk.memory.conversations.create("anna", "")).id
    parameters = {"llm_question": "What is in Plus?", "memory_id": conversation}
    body = {
        "query": {"match": {"text": "Plus"}},
        "ext": {"generative_qa_parameters": parameters},
    }
    (search,) = [each.path for each in OPENSEARCH if each.path == "/{index}/_search"]
    assert desk.send(call(search, body, ANNA, path="documents")).status == 200

    assert desk.rate("call-1", comment="No.").status == 204
    assert desk.stored() == [feedback("No.")]


def test_the_last_feedback_replaces_the_earlier_one(desk: Desk) -> None:
    first, second = desk.answer(1), desk.answer(2)
    desk.rate(first, reasons=["incorrect"], comment="It is 30 days.")
    desk.rate(second)
    desk.rate(first, rating="up")

    assert desk.stored() == [feedback(rating="up"), feedback()]


def test_feedback_is_deleted_with_its_conversation(desk: Desk) -> None:
    id = desk.answer(1)
    desk.rate(id, comment="No.")
    (interaction,) = desk.interactions("anna")
    asyncio.run(desk.memory.conversations.delete("anna", interaction.conversation))

    assert desk.rate(id, comment="No.").status == 404
    assert desk.rate(id).status == 204


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        (BEN, 404, "No stored answer of yours has the x-request-id [request-1]."),
        (JSON, 401, "Sign in: "),
    ],
)
def test_only_the_owner_of_an_answer_rates_it(
    desk: Desk, headers: Any, status: int, message: str
) -> None:
    id = desk.answer(1)
    desk.rate(id, rating="up")
    refused = desk.rate(id, headers, comment="No.")

    assert (refused.status, refused.json["error"][: len(message)]) == (status, message)
    assert desk.rate(id, headers).status == 204  # a rating alone is logged
    assert desk.stored() == [feedback(rating="up")]


def test_a_comment_needs_stored_conversations() -> None:
    app = local_service(make_rag())
    body = {"request_id": "x", "rating": "up"}
    refused = ask(call("/feedback", {**body, "comment": "Good."}), app)

    assert refused.status == 400
    assert refused.json["error"].startswith("This deployment stores no conversations")
    assert ask(call("/feedback", body), app).status == 204


def test_a_rating_of_an_answer_that_is_not_stored_is_logged(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "chat"):
        assert desk.rate("other", reasons=["incorrect"]).status == 204
    assert "feedback id=call-1 request=other rating=down" in caplog.messages
    assert desk.rate("other", comment="No.").status == 404


def test_a_comment_is_not_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    id = desk.answer(1)
    with caplog.at_level("DEBUG"):
        desk.rate(id, comment="a secret")
    assert "rating=down" in caplog.text
    assert "secret" not in caplog.text


def test_a_full_store_takes_ratings_alone_by_the_log(tmp_path: Path) -> None:
    with sqlite_memory(tmp_path, max_bytes=1500) as memory:
        desk = make_desk(memory)
        id = desk.answer(1)
        assert desk.rate(id, comment="x" * 1000).status == 204
        refused = desk.rate(id, comment="y" * 1000)

        assert (refused.status, "delete some" in refused.json["error"]) == (400, True)
        assert desk.rate(id, rating="up").status == 204
        assert desk.stored() == [feedback("x" * 1000)]


@pytest.mark.parametrize("text", ["no JSON", "[1]", "null"])
def test_feedback_of_an_unknown_form_is_replaced(desk: Desk, text: str) -> None:
    id = desk.answer(1)
    (interaction,) = desk.interactions("anna")
    asyncio.run(desk.memory.interactions.rate("anna", interaction.id, text))

    assert desk.rate(id, rating="up").status == 204
    assert desk.stored() == [feedback(rating="up")]


class DeletingInteractions(FailingInteractions):
    """Interactions of a memory whose conversation is deleted before feedback is stored."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory.interactions, errors.NotFound())
        self.rate, self.memory = self.delete_and_rate, memory

    async def delete_and_rate(self, owner: str, interaction: str, feedback: str) -> None:
        turn = await self.inner.get(owner, interaction)
        await self.memory.conversations.delete(owner, turn.conversation)
        await self.inner.rate(owner, interaction, feedback)


@pytest.mark.parametrize(("fields", "status"), [({}, 204), ({"comment": "No."}, 404)])
def test_a_conversation_may_be_deleted_meanwhile(desk: Desk, fields: Any, status: int) -> None:
    id = desk.answer(1)
    memory = replace(desk.memory, interactions=DeletingInteractions(desk.memory))
    desk.app = replace(desk.app, memory=memory)

    assert desk.rate(id, **fields).status == status


def test_a_failing_store_is_an_error_after_the_log_line(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    id = desk.answer(1)
    failing = UnreadInteractions(desk.memory.interactions, errors.Unavailable())
    desk.app = replace(desk.app, memory=replace(desk.memory, interactions=failing))
    with caplog.at_level("INFO", "chat"):
        reply = desk.rate(id, rating="up")

    assert reply.status == 503
    assert f"feedback id=call-1 request={id} rating=up" in caplog.messages


@pytest.mark.parametrize(("headers", "comments"), [(ANNA, True), (JSON, False)])
def test_get_says_whether_comments_are_stored(desk: Desk, headers: Any, comments: bool) -> None:
    reply = desk.send(call("/feedback", [b""], headers, method="GET"))

    assert (reply.status, reply.json["comments"]) == (200, comments)
    assert ask(call("/feedback", [b""], JSON, method="GET")).json["comments"] is False
