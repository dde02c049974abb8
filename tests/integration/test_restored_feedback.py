"""The feedback on the answers of a stored conversation, as its owner reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from shared.app import handle_call
from shared.memory.base import Memory, Turn
from shared.protocols.exchange import App
from tests.support.calls import ANNA, BEN, JSON, BufferedReply, ask, call, local_service, read
from tests.support.fakes import make_rag
from tests.support.feedback import STORED, make_desk
from tests.support.stores import OpenStore
from tests.support.stores import account as account
from tests.support.stores import opened as opened

pytestmark = pytest.mark.part("conversations")
ROUTE = "/feedback/conversations/{id}"


@dataclass
class Desk:
    """An app with sign-in, and one conversation of Anna's."""

    app: App
    memory: Memory
    id: str

    async def send(self, route: str, body: Any, headers: Any = ANNA, **more: Any) -> BufferedReply:
        request = call(route, body, headers, **more)
        return await read(await handle_call(self.app, request))

    async def answer(self, request: str) -> None:
        """Ask a question, whose answer is stored."""
        body = {**STORED, "sessionState": {"conversation_id": self.id}}
        assert (await self.send("/chat", body, id=request)).status == 200

    async def rate(self, request: str, **fields: Any) -> BufferedReply:
        reply = await self.send("/feedback", {"request_id": request, "rating": "down", **fields})
        assert reply.status in (200, 204)
        return reply

    async def restore(self, headers: Any = ANNA, **more: Any) -> BufferedReply:
        options = {"path": self.id, "method": "GET", **more}
        return await self.send(ROUTE, [b""], headers, **options)

    async def answers(self) -> list[dict[str, Any]]:
        reply = await self.restore()
        assert reply.status == 200
        assert reply.json.keys() == {"answers"}
        return list(reply.json["answers"])


Work = Callable[[Desk], Awaitable[None]]


@pytest.fixture
def run(opened: OpenStore) -> Callable[[Work], None]:
    """Runs work with an app over each store."""

    def go(work: Work) -> None:
        async def within() -> None:
            async with opened() as memory:
                app = make_desk(memory).app
                id = (await memory.conversations.create("anna", "")).id
                await work(Desk(app, memory, id))

        asyncio.run(within())

    return go


def test_owner_reads_the_feedback_on_each_answer(run: Any) -> None:
    async def work(desk: Desk) -> None:
        for number in (1, 2, 3):
            await desk.answer(f"request-{number}")
        await desk.rate("request-1", reasons=["incorrect"], comment="30 days.")
        await desk.rate("request-3", rating="up")
        answers = await desk.answers()
        stored = await desk.memory.interactions.find("anna", "request-1")
        assert answers[0]["message_id"] == stored.id
        assert [each["request_id"] for each in answers] == ["request-1", "request-2", "request-3"]
        bad, none, good = (each["feedback"] for each in answers)
        assert (bad["rating"], bad["reasons"], bad["comment"]) == (
            "down",
            ["incorrect"],
            "30 days.",
        )
        assert none is None
        assert (good["rating"], good["reasons"]) == ("up", [])

    run(work)


def test_what_was_never_answered_by_a_request_cannot_be_rated(run: Any) -> None:
    async def work(desk: Desk) -> None:
        for request in ("", "has spaces"):
            turn = Turn(input="What?", response="So far", request=request)
            await desk.memory.interactions.add("anna", desk.id, turn)
        assert await desk.answers() == []

    run(work)


@pytest.mark.parametrize(
    "text", ["[1]", "no JSON", '{"rating": "great"}', '{"rating": "up", "reasons": ["incorrect"]}']
)
def test_feedback_of_an_unknown_form_is_none(run: Any, text: str) -> None:
    async def work(desk: Desk) -> None:
        await desk.answer("request-1")
        stored = await desk.memory.interactions.find("anna", "request-1")
        await desk.memory.interactions.rate("anna", stored.id, text)
        (answer,) = await desk.answers()
        assert answer["feedback"] is None

    run(work)


@pytest.mark.parametrize(("headers", "status"), [(BEN, 404), (JSON, 401)])
def test_nobody_else_reads_it(run: Any, headers: Any, status: int) -> None:
    async def work(desk: Desk) -> None:
        await desk.answer("request-1")
        await desk.rate("request-1", comment="30 days.")
        reply = await desk.restore(headers)
        assert reply.status == status
        assert b"30 days" not in reply.data

    run(work)


def test_a_long_conversation_has_pages(run: Any) -> None:
    async def work(desk: Desk) -> None:
        for number in range(101):
            turn = Turn(input="What?", response="That.", request=f"request-{number}")
            await desk.memory.interactions.add("anna", desk.id, turn)
        first = (await desk.restore()).json
        second = (await desk.restore(query={"start": str(first["next"])})).json
        assert [len(each["answers"]) for each in (first, second)] == [100, 1]
        assert second["answers"][0]["request_id"] == "request-100"
        assert "next" not in second

    run(work)


@pytest.mark.parametrize("start", ["-1", "1e3", "x", "", "٣", "9" * 20])
def test_a_wrong_start_is_refused(run: Any, start: str) -> None:
    async def work(desk: Desk) -> None:
        reply = await desk.restore(query={"start": start})
        assert reply.status == 400
        assert reply.json["error"].startswith("start: ")

    run(work)


def test_where_nothing_is_stored_there_is_no_feedback() -> None:
    request = call(ROUTE, [b""], path="x", method="GET")
    reply = ask(request, local_service(make_rag()))

    assert reply.status == 400
    assert reply.json["error"].startswith("This deployment stores no conversations")
