"""Copies of answers are kept with consent, without an owner, until they expire or are deleted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.bootstrap.build import build
from shared.domain import errors
from shared.memory.copies import AnswerCopies, AnswerCopy
from shared.memory.cosmos import copies as cosmos
from shared.memory.sqlite import copies as sqlite
from shared.memory.sqlite.connection import MemoryFile
from shared.protocols.feedback.copies import CopiesConfig
from shared.settings import SettingsError, read_settings
from tests.support.answer_copies import Copies, open_cosmos_copies
from tests.support.calls import ANNA, BEN, JSON, BufferedReply, call
from tests.support.fake_cosmos import RESET, run_cosmos
from tests.support.feedback import Desk, make_desk
from tests.support.servers import LAPTOP
from tests.support.stores import STORES, FakeClock, sqlite_memory

DAY = 86400
COPY = AnswerCopy(
    id="0" * 32,
    day="2026-11-26",
    question="Wie viele Tage? \U0001f600",
    answer="30 days.",
    rating="down",
    reasons=("incorrect", "incomplete"),
    comment='It says "20".\n',
)
Work = Callable[[AnswerCopies], Awaitable[Any]]


@asynccontextmanager
async def open_sqlite_copies(path: Path, clock: FakeClock) -> AsyncIterator[AnswerCopies]:
    store = sqlite.open_copies(path, 3, now=clock)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=STORES)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Runs work with a store of copies that are kept for three days, by a clock."""
    clock = FakeClock()

    def go(work: Callable[..., Awaitable[Any]]) -> Any:
        async def within() -> Any:
            async with open_store() as store:
                return await work(store, clock)

        return asyncio.run(within())

    if request.param == "sqlite":
        open_store: Any = partial(open_sqlite_copies, tmp_path / "memory.db", clock)
        yield go
        return
    with run_cosmos(now=clock, ttl=None) as fake:
        open_store = partial(open_cosmos_copies, fake, 3)
        yield go
        return
    with run_cosmos(now=clock, ttl=None) as fake:
        yield go


def other(number: int, **more: Any) -> AnswerCopy:
    values = {**COPY.to_json(), "reasons": (), "id": f"{number:032x}", **more}
    return AnswerCopy(**values)


def test_copies_are_returned_as_they_were_put(run: Any) -> None:
    async def work(store: AnswerCopies, _clock: FakeClock) -> None:
        assert list(await store.all()) == []
        await store.put(COPY)
        await store.put(other(1, day="2026-11-27"))
        assert list(await store.all()) == [COPY, other(1, day="2026-11-27")]
        await store.put(other(0, rating="up"))
        assert {each.rating for each in await store.all() if each.id == COPY.id} == {"up"}
        assert len(await store.all()) == 2

    run(work)


def test_a_deleted_copy_is_gone(run: Any) -> None:
    async def work(store: AnswerCopies, _clock: FakeClock) -> None:
        assert await store.delete(COPY.id) is False
        await store.put(COPY)
        await store.put(other(1))
        assert await store.delete(COPY.id) is True
        assert await store.delete(COPY.id) is False
        assert list(await store.all()) == [other(1)]

    run(work)


def test_a_copy_expires(run: Any) -> None:
    async def work(store: AnswerCopies, clock: FakeClock) -> None:
        await store.put(COPY)
        clock.at += 2 * DAY
        await store.put(other(1))
        clock.at += DAY
        assert list(await store.all()) == [other(1)]
        assert await store.delete(COPY.id) is False

    run(work)


@pytest.mark.part("memory-file")
def test_an_expired_copy_is_erased_from_the_file(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "memory.db"

    async def work() -> None:
        async with open_sqlite_copies(path, clock) as store:
            await store.put(COPY)
            clock.at += 3 * DAY
            await store.put(other(1, answer="another"))

    asyncio.run(work())
    content = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"another" in content
    assert COPY.answer.encode() not in content


@pytest.mark.part("cosmos")
def test_an_item_of_a_copy_has_no_owner_and_its_own_expiry() -> None:
    clock = FakeClock()
    with run_cosmos(now=clock) as fake:

        async def work() -> None:
            async with open_cosmos_copies(fake, 3) as store:
                await store.put(COPY)

        asyncio.run(work())
        (item,) = fake.items
        paths = {request.path for request in fake.requests if "/colls/" in request.path}

    assert item["owner"] == "app:copies"
    assert item["ttl"] == 3 * DAY
    assert all(path.startswith("/dbs/chat/colls/feedback/") for path in paths)


@pytest.mark.part("cosmos")
@pytest.mark.parametrize("applied", [False, True])
def test_a_copy_is_put_and_deleted_once_after_a_lost_response(applied: bool) -> None:
    with run_cosmos() as fake:

        async def work() -> None:
            async with open_cosmos_copies(fake, None) as store:
                fake.fail(RESET, applied=applied)
                await store.put(COPY)
                assert list(await store.all()) == [COPY]
                fake.fail(RESET, applied=applied, after=1)
                assert await store.delete(COPY.id) is True
                assert list(await store.all()) == []
                fake.fail(RESET, times=2)
                with pytest.raises(errors.Unavailable):
                    await store.put(COPY)

        asyncio.run(work())


@pytest.fixture
def copies() -> Copies:
    return Copies()


@pytest.fixture
def desk(tmp_path: Path, copies: Copies) -> Iterator[Desk]:
    with sqlite_memory(tmp_path) as memory:
        yield make_desk(memory, configs=(CopiesConfig(copies),))


def delete(desk: Desk, id: str, headers: Any = ANNA) -> BufferedReply:
    route = "/feedback/copies/{id}"
    return desk.send(call(route, [b""], headers, method="DELETE", path=id))


def test_consent_copies_the_question_and_the_answer(desk: Desk, copies: Copies) -> None:
    reply = desk.rate(desk.answer(1), reasons=["incorrect"], comment="No.", keep_copy=True)

    id = reply.json["copy_id"]
    assert (reply.status, re.fullmatch("[0-9a-f]{32}", id) is not None) == (200, True)
    (copy,) = copies.kept.values()
    assert (copy.id, copy.question, copy.answer) == (
        id,
        "What is in Plus?",
        "Dental care [plans/plus.pdf#page=2].",
    )
    assert (copy.rating, copy.reasons, copy.comment) == ("down", ("incorrect",), "No.")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", copy.day)
    assert "anna" not in json.dumps(copy.to_json())


def test_without_consent_nothing_is_copied(desk: Desk, copies: Copies) -> None:
    id = desk.answer(1)
    for fields in ({}, {"comment": "No."}, {"keep_copy": False}):
        assert desk.rate(id, **fields).status == 204

    assert copies.kept == {}


def test_feedback_without_consent_deletes_the_copy(desk: Desk, copies: Copies) -> None:
    id, second = desk.answer(1), desk.answer(2)
    desk.rate(id, keep_copy=True)
    other_copy = desk.rate(second, keep_copy=True).json["copy_id"]

    assert desk.rate(id, rating="up").status == 204
    assert list(copies.kept) == [other_copy]
    assert desk.stored()[0]["copy"] == ""


def test_repeated_consent_replaces_the_copy(desk: Desk, copies: Copies) -> None:
    id = desk.answer(1)
    first = desk.rate(id, comment="Old.", keep_copy=True).json["copy_id"]
    second = desk.rate(id, comment="New.", keep_copy=True).json["copy_id"]

    assert first == second
    assert [each.comment for each in copies.kept.values()] == ["New."]


def test_a_copy_outlives_its_conversation_and_is_deleted_by_its_id(
    desk: Desk, copies: Copies
) -> None:
    id = desk.rate(desk.answer(1), keep_copy=True).json["copy_id"]
    (interaction,) = desk.interactions("anna")
    asyncio.run(desk.memory.conversations.delete("anna", interaction.conversation))

    assert list(copies.kept) == [id]
    assert delete(desk, id, JSON).status == 204
    assert copies.kept == {}
    assert delete(desk, id).status == 404


@pytest.mark.parametrize("id", ["", "0" * 31, "A" * 32, "../" + "0" * 29, "x"])
def test_no_other_text_is_the_id_of_a_copy(desk: Desk, id: str) -> None:
    reply = delete(desk, id)
    message = "There is no copy of an answer with this id."
    assert (reply.status, reply.json["error"]) == (404, message)


def test_only_the_owner_of_an_answer_copies_it(desk: Desk, copies: Copies) -> None:
    id = desk.answer(1)

    assert desk.rate(id, BEN, keep_copy=True).status == 404
    assert desk.rate(id, JSON, keep_copy=True).status == 401
    assert copies.kept == {}


@pytest.mark.parametrize("at", ["put", "delete"])
def test_feedback_is_repeated_after_a_failure(desk: Desk, copies: Copies, at: str) -> None:
    id = desk.answer(1)
    if at == "delete":
        desk.rate(id, keep_copy=True)
    copies.failing = True
    assert desk.rate(id, keep_copy=at == "put").status == 503
    known = desk.stored()[0]["copy"]
    copies.failing = False

    assert known  # the answer has the id of every copy that may be there
    assert desk.rate(id, keep_copy=at == "put").status == (200 if at == "put" else 204)
    assert list(copies.kept) == ([known] if at == "put" else [])


def test_a_deployment_without_copies_says_so(tmp_path: Path) -> None:
    with sqlite_memory(tmp_path) as memory:
        desk = make_desk(memory)
        refused = desk.rate(desk.answer(1), keep_copy=True)

        assert (refused.status, "FEEDBACK_COPIES" in refused.json["error"]) == (501, True)
        assert delete(desk, "0" * 32).status == 501
        get = desk.send(call("/feedback", [b""], ANNA, method="GET"))
        assert get.json == {"comments": True, "copies": False, "copy_days": None}


def test_get_says_how_long_copies_are_kept(desk: Desk) -> None:
    get = desk.send(call("/feedback", [b""], ANNA, method="GET"))
    assert get.json == {"comments": True, "copies": True, "copy_days": 90}


@pytest.mark.part("memory-file")
def test_settings_switch_copies_on(tmp_path: Path) -> None:
    settings = {**LAPTOP, "MEMORY_FILE": str(tmp_path / "memory.db"), "MEMORY_DAYS": "7"}
    app = build(read_settings({**settings, "FEEDBACK_COPIES": "on"}))
    store = app.config(CopiesConfig).copies
    assert isinstance(store, sqlite.SqliteCopies)
    assert (store.days, isinstance(store.file, MemoryFile)) == (7, True)
    assert build(read_settings(settings)).config(CopiesConfig).copies is None


def test_copies_without_a_store_are_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="FEEDBACK_COPIES needs stored conversations"):
        build(read_settings({**LAPTOP, "FEEDBACK_COPIES": "on"}))


@pytest.mark.part("cosmos")
def test_settings_choose_the_container_in_cosmos_db() -> None:
    with run_cosmos() as fake:
        app = build(
            read_settings({**LAPTOP, "AZURE_COSMOS_ENDPOINT": fake.url, "FEEDBACK_COPIES": "on"})
        )
        assert isinstance(app.config(CopiesConfig).copies, cosmos.CosmosCopies)
