"""Copies of answers are kept with consent, without an owner, until they expire or are deleted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.domain import errors
from shared.memory.base import PageRequest
from shared.memory.copies import AnswerCopies, AnswerCopy, EarlierTurn, TooManyCopies, parse_copy
from shared.memory.cosmos import copies as cosmos
from shared.memory.sqlite import copies as sqlite
from shared.memory.sqlite.connection import MemoryFile
from shared.protocols.exchange import App
from shared.protocols.feedback.copies import CopiesConfig
from shared.protocols.health import Health, HealthCheck
from shared.settings import SettingsError, read_settings
from tests.support.answer_copies import Copies, open_cosmos_copies
from tests.support.calls import ANNA, BEN, JSON, BufferedReply, call, read
from tests.support.fake_cosmos import RESET, FakeCosmos, cosmos_error, run_cosmos
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
    earlier=(EarlierTurn("Wie \U0001f600?", "So."), EarlierTurn("Und?", "")),
)


@asynccontextmanager
async def open_sqlite_copies(
    path: Path, days: float | None, clock: FakeClock
) -> AsyncIterator[AnswerCopies]:
    store = sqlite.open_copies(path, days, now=clock)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_new_cosmos(days: float | None, clock: FakeClock) -> AsyncIterator[AnswerCopies]:
    with run_cosmos(now=clock, ttl=None) as fake:  # the app alone knows what has expired
        async with open_cosmos_copies(fake, days) as store:
            yield store


@pytest.fixture(params=STORES)
def open_copies(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Opens a new store of copies, which are kept for some days by a clock."""
    if request.param == "cosmos":
        return open_new_cosmos
    return partial(open_sqlite_copies, tmp_path / "memory.db")


@pytest.fixture
def run(open_copies: Any) -> Callable[[Callable[..., Awaitable[Any]]], None]:
    """Runs work with a store of copies that are kept for three days, and its clock."""

    def go(work: Callable[..., Awaitable[Any]]) -> None:
        async def within() -> None:
            clock = FakeClock()
            async with open_copies(3, clock) as store:
                await work(store, clock)

        asyncio.run(within())

    return go


def other(number: int, **more: Any) -> AnswerCopy:
    return replace(COPY, **{"reasons": (), "earlier": (), "id": f"{number:032x}", **more})


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


def test_a_new_store_is_ready(run: Any) -> None:
    async def work(store: AnswerCopies, _clock: FakeClock) -> None:
        await store.ready()
        await store.put(COPY)
        await store.ready()

    run(work)


def test_a_deleted_copy_is_gone(run: Any) -> None:
    async def work(store: AnswerCopies, _clock: FakeClock) -> None:
        assert await store.exists(COPY.id) is False
        assert await store.delete(COPY.id) is False
        await store.put(COPY)
        await store.put(other(1))
        assert await store.exists(COPY.id) is True
        assert await store.delete(COPY.id) is True
        assert await store.exists(COPY.id) is False
        assert await store.delete(COPY.id) is False
        assert list(await store.all()) == [other(1)]

    run(work)


def test_a_copy_expires(run: Any) -> None:
    async def work(store: AnswerCopies, clock: FakeClock) -> None:
        await store.put(COPY)
        clock.at += 2 * DAY
        await store.put(other(1))
        await store.put(other(0, rating="up"))  # replaced: it expires when the first one does
        clock.at += DAY
        assert len(await store.all()) == 2
        clock.at += DAY
        assert list(await store.all()) == [other(1)]
        assert await store.delete(COPY.id) is False
        await store.put(COPY)
        clock.at += 2 * DAY
        assert list(await store.all()) == [COPY]

    run(work)


def test_copies_are_kept_for_whole_days(run: Any) -> None:
    async def work(store: AnswerCopies, clock: FakeClock) -> None:
        clock.at = 20_000 * DAY + 1
        await store.put(COPY)
        clock.at = 20_004 * DAY - 1
        assert list(await store.all()) == [COPY]
        clock.at += 1
        assert list(await store.all()) == []

    run(work)


def test_without_days_a_copy_does_not_expire(open_copies: Any) -> None:
    clock = FakeClock()

    async def work() -> None:
        async with open_copies(None, clock) as store:
            await store.put(COPY)
            clock.at += 100_000 * DAY
            assert list(await store.all()) == [COPY]

    asyncio.run(work())


def test_the_number_of_copies_is_limited(run: Any) -> None:
    async def work(opened: Any, _clock: FakeClock) -> None:
        store = replace(opened, max_copies=2)
        await store.put(other(1))
        await store.put(other(2))
        with pytest.raises(TooManyCopies, match="Send the feedback without a copy"):
            await store.put(other(3))
        await store.put(other(2, rating="up"))
        assert await store.delete(other(1).id) is True
        await store.put(other(3))
        assert len(await store.all()) == 2

    run(work)


@pytest.mark.parametrize(
    ("more", "missing"), [({"later": 1}, ()), ({}, ("reasons", "comment", "earlier"))]
)
def test_a_copy_of_another_version_is_read(more: dict[str, Any], missing: tuple[str, ...]) -> None:
    value = {key: each for key, each in COPY.to_json().items() if key not in missing} | more
    expected = replace(COPY, reasons=(), comment="", earlier=()) if missing else COPY

    assert parse_copy(value) == expected


@pytest.mark.part("memory-file")
def test_an_expired_copy_is_erased_from_the_file(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "memory.db"

    async def work() -> None:
        async with open_sqlite_copies(path, 3, clock) as store:
            await store.put(COPY)
            clock.at += 4 * DAY
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
    assert all(path.startswith("/dbs/chat/colls/feedback/") for path in paths)
    assert item["expires"] % DAY == 0  # a time would lead to the line of the log
    assert 3 * DAY < item["ttl"] <= 4 * DAY


@pytest.mark.part("cosmos")
def test_the_longest_retention_is_a_time_to_live_of_the_service() -> None:
    clock = FakeClock(20_000 * DAY + 1)
    with run_cosmos(now=clock) as fake:

        async def work() -> None:
            async with open_cosmos_copies(fake, 24855) as store:
                await store.put(COPY)

        asyncio.run(work())
        assert [item["ttl"] for item in fake.items] == [2**31 - 1]


@pytest.mark.part("cosmos")
@pytest.mark.parametrize("applied", [False, True])
def test_a_copy_is_put_and_deleted_once_after_a_lost_response(applied: bool) -> None:
    with run_cosmos() as fake:

        async def work() -> None:
            async with open_cosmos_copies(fake, None) as store:
                fake.fail(RESET, applied=applied, kind="Upsert")
                await store.put(COPY)
                assert list(await store.all()) == [COPY]
                fake.fail(RESET, applied=applied, after=1)
                assert await store.delete(COPY.id) is True
                assert list(await store.all()) == []
                fake.fail(RESET, times=2, kind="Upsert")
                with pytest.raises(errors.Unavailable):
                    await store.put(COPY)

        asyncio.run(work())


@pytest.fixture
def copies() -> Copies:
    return Copies()


@pytest.fixture
def desk(tmp_path: Path, copies: Copies) -> Iterator[Desk]:
    with sqlite_memory(tmp_path) as memory:
        yield make_desk(memory, configs=(CopiesConfig(copies, accepts_new=True),))


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


def test_consent_is_true_or_false(desk: Desk, copies: Copies) -> None:
    refused = desk.rate(desk.answer(1), keep_copy="yes")

    assert (refused.status, copies.kept) == (400, {})
    assert refused.json["error"].startswith("keep_copy: must be")


def restored_copy(desk: Desk) -> tuple[bool, str]:
    """Whether the owner reads of a copy of the only answer, and its id."""
    (interaction,) = desk.interactions("anna")
    route, id = "/feedback/conversations/{id}", interaction.conversation
    reply = desk.send(call(route, [b""], ANNA, method="GET", path=id))
    (answer,) = reply.json["answers"]
    return answer["feedback"]["keep_copy"], answer["feedback"]["copy_id"]


def test_the_owner_reads_the_id_of_a_copy(desk: Desk) -> None:
    id = desk.rate(desk.answer(1), keep_copy=True).json["copy_id"]

    assert restored_copy(desk) == (True, id)


def test_consent_to_a_copy_that_is_deleted_is_not_restored(desk: Desk) -> None:
    id = desk.rate(desk.answer(1), keep_copy=True).json["copy_id"]
    assert delete(desk, id).status == 204

    assert restored_copy(desk) == (False, "")


def test_no_copy_is_named_where_none_are_kept_any_more(desk: Desk, copies: Copies) -> None:
    desk.rate(desk.answer(1), keep_copy=True)
    later = replace(desk.app, configs=(CopiesConfig(copies, accepts_new=False),))

    assert restored_copy(Desk(desk.memory, later)) == (False, "")


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


@pytest.mark.parametrize("keeps", [True, False])
def test_feedback_is_repeated_after_a_failure(desk: Desk, copies: Copies, keeps: bool) -> None:
    id = desk.answer(1)
    if not keeps:
        desk.rate(id, keep_copy=True)
    copies.failing = True
    assert desk.rate(id, keep_copy=keeps).status == 503
    copies.failing = False

    assert desk.rate(id, keep_copy=keeps).status == (200 if keeps else 204)
    assert len(copies.kept) == keeps


def test_feedback_at_once_leaves_no_copy_that_a_later_one_cannot_delete(
    desk: Desk, copies: Copies
) -> None:
    id = desk.answer(1)
    bodies: list[dict[str, Any]] = [
        {"keep_copy": True},
        {},
        {"keep_copy": True, "comment": "No."},
        {"rating": "up"},
    ] * 5

    async def rate_all() -> None:
        base = {"request_id": id, "rating": "down"}
        requests = [call("/feedback", {**base, **body}, ANNA) for body in bodies]
        await asyncio.gather(*(handle_call(desk.app, each) for each in requests))

    asyncio.run(rate_all())
    assert len(copies.kept) <= 1
    assert desk.rate(id).status == 204
    assert copies.kept == {}


def test_consent_that_is_withdrawn_meanwhile_keeps_no_copy(desk: Desk, copies: Copies) -> None:
    id = desk.answer(1)

    async def withdraw() -> None:
        (interaction,) = await list_interactions()
        await desk.memory.interactions.rate("anna", interaction.id, '{"keep_copy": false}')

    async def list_interactions() -> Any:
        (conversation,) = await desk.memory.conversations.list("anna", PageRequest())
        return await desk.memory.interactions.list("anna", conversation.id, PageRequest())

    copies.meanwhile = withdraw
    desk.rate(id, keep_copy=True)

    assert copies.kept == {}


def test_consent_can_be_withdrawn_where_the_store_is_full(tmp_path: Path) -> None:
    copies = Copies()
    with sqlite_memory(tmp_path, max_bytes=2200) as memory:
        desk = make_desk(memory, configs=(CopiesConfig(copies, accepts_new=True),))
        id = desk.answer(1)
        desk.rate(id, comment="x" * 1500, keep_copy=True)
        assert len(copies.kept) == 1
        assert desk.rate(id, comment="still full").status == 400

    assert copies.kept == {}


def test_a_withdrawal_that_failed_can_be_repeated_when_copies_are_switched_off(
    desk: Desk, copies: Copies
) -> None:
    id = desk.answer(1)
    desk.rate(id, keep_copy=True)
    desk.app = replace(desk.app, configs=(CopiesConfig(copies),))
    copies.failing = True
    assert desk.rate(id).status == 503
    copies.failing = False

    assert desk.rate(id).status == 204
    assert copies.kept == {}


@pytest.mark.part("cosmos")
def test_a_container_that_was_never_made_has_no_copies(tmp_path: Path) -> None:
    with run_cosmos(exists=False) as fake, sqlite_memory(tmp_path) as memory:

        async def delete_one(accepts_new: bool) -> int:
            async with open_cosmos_copies(fake, 90) as store:
                config = CopiesConfig(store, accepts_new)
                app = make_desk(memory, configs=(config,)).app
                route = "/feedback/copies/{id}"
                request = call(route, [b""], ANNA, method="DELETE", path="0" * 32)
                return (await handle_call(app, request)).status

        assert asyncio.run(delete_one(accepts_new=False)) == 404
        assert asyncio.run(delete_one(accepts_new=True)) == 503


def test_copies_that_were_kept_can_be_deleted_when_they_are_switched_off(
    desk: Desk, copies: Copies
) -> None:
    first, second, third = (desk.answer(number) for number in (1, 2, 3))
    desk.rate(first, keep_copy=True)
    other_copy = desk.rate(second, keep_copy=True).json["copy_id"]
    desk.app = replace(desk.app, configs=(CopiesConfig(copies),))

    assert desk.rate(third, keep_copy=True).status == 400
    assert desk.rate(first, rating="up").status == 204
    assert list(copies.kept) == [other_copy]
    assert delete(desk, other_copy).status == 204
    get = desk.send(call("/feedback", [b""], ANNA, method="GET"))
    assert (get.json["copies"], get.json["copy_days"]) == (False, None)
    copies.failing = True  # nothing is sent where there was no copy
    assert desk.rate(third).status == 204


def test_a_deployment_without_copies_says_so(tmp_path: Path) -> None:
    with sqlite_memory(tmp_path) as memory:
        desk = make_desk(memory)
        refused = desk.rate(desk.answer(1), keep_copy=True)

        assert refused.status == 400
        assert refused.json["error"].startswith("keep_copy: this deployment keeps no copies")
        assert delete(desk, "0" * 32).status == 404
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
    assert app.config(CopiesConfig).accepts_new is True
    assert build(read_settings(settings)).config(CopiesConfig).accepts_new is False
    assert build(read_settings(LAPTOP)).config(CopiesConfig).copies is None


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


@pytest.mark.part("cosmos")
def test_health_says_how_to_make_the_container_of_copies() -> None:
    async def report(fake: FakeCosmos) -> Any:
        async with open_cosmos_copies(fake, 90) as store:
            app = App(configs=(Health({"copies": HealthCheck(store.name, store.ready)}),))
            return (await read(await handle_call(app, call("/health", method="GET")))).json

    with run_cosmos() as fake:
        assert asyncio.run(report(fake)) == {"status": "ok", "copies": "Azure Cosmos DB"}
        assert fake.written == 0
        fake.fail(cosmos_error(403))
        refused = asyncio.run(report(fake))["failing"]["copies"]
        fake.fail(cosmos_error(503), times=2)
        down = asyncio.run(report(fake))["failing"]["copies"]
    with run_cosmos(exists=False) as fake:
        missing = asyncio.run(report(fake))["failing"]["copies"]

    assert refused == missing == cosmos.UNUSABLE
    assert down == errors.Unavailable.default


@pytest.mark.part("cosmos")
def test_conversations_are_not_in_the_container_of_copies() -> None:
    settings = {"AZURE_COSMOS_ENDPOINT": "https://a.example", "AZURE_COSMOS_CONTAINER": "feedback"}
    with pytest.raises(SettingsError, match="AZURE_COSMOS_CONTAINER must not be feedback"):
        build(read_settings({**LAPTOP, **settings}))
