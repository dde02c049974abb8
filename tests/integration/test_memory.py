"""The contract of memory, held against every store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.chat.errors import BadRequest, NotFound
from shared.memory.base import Memory, PageRequest, Turn
from tests.support.fake_cosmos import FakeCosmos, run_cosmos
from tests.support.stores import FakeClock, OpenStore, cosmos_store, sqlite_store

SAID = Turn("What is covered?", "Answer.", "Dental care.", "chat", '["a.md: teeth"]')
EVERYTHING = PageRequest(0, 1000)
ODD = ["", "a/b", "../x", "x" * 5000, "%00", "'; DROP TABLE conversation; --", "?#\\", "é 漢"]


@pytest.fixture(scope="module")
def account() -> Iterator[FakeCosmos]:
    with run_cosmos() as fake:
        yield fake


@pytest.fixture(params=["sqlite", "cosmos"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "sqlite":
        return sqlite_store(tmp_path)
    account: FakeCosmos = request.getfixturevalue("account")
    account.partitions.clear()
    return cosmos_store(account)


def during(opened: OpenStore, work: Callable[[Memory], Awaitable[Any]], **how: Any) -> Any:
    """What some work with a store gives."""

    async def go() -> Any:
        async with opened(**how) as memory:
            return await work(memory)

    return asyncio.run(go())


def test_a_conversation_is_as_it_was_made(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        made = await memory.conversations.create("anna", "Example conversation")

        assert made.name == "Example conversation"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", made.created)
        assert re.fullmatch(r"\w+", made.id)
        assert await memory.conversations.get("anna", made.id) == made
        assert await memory.conversations.list("anna", PageRequest()) == (made,)

    during(opened, work)


def test_an_interaction_is_as_it_was_said(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        odd = Turn("漢字 \U0001f600 \x00 \u2028", response="line\nline", additional_info="{")
        conversation = (await memory.conversations.create("anna", "")).id
        first = await memory.interactions.add("anna", conversation, SAID)
        second = await memory.interactions.add("anna", conversation, odd)

        assert (first.turn, second.turn) == (SAID, odd)
        assert first.conversation == conversation
        assert first.created < second.created
        assert await memory.interactions.get("anna", first.id) == first
        assert await memory.interactions.list("anna", conversation, PageRequest()) == (
            second,
            first,
        )
        in_order = await memory.interactions.list("anna", conversation, PageRequest(), False)
        assert in_order == (first, second)

    during(opened, work)


def test_as_much_is_taken_as_the_api_lets_through(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        for character in ("x", "漢", "\U0001f600"):
            long = Turn(input="a", additional_info=character * 80_000)
            conversation = (await memory.conversations.create("anna", character * 1000)).id
            made = await memory.interactions.add("anna", conversation, long)
            await memory.interactions.annotate("anna", made.id, character * 80_000)
            await memory.conversations.rename("anna", conversation, character * 1000)

            assert (await memory.interactions.get("anna", made.id)).turn == long

    during(opened, work)


def test_what_was_stored_is_there_when_it_is_opened_again(opened: OpenStore) -> None:
    async def store(memory: Memory) -> Any:
        conversation = await memory.conversations.create("anna", "kept")
        await memory.pipelines.put("p", {"description": "x"})
        return conversation, await memory.interactions.add("anna", conversation.id, SAID)

    async def look(memory: Memory) -> Any:
        (conversation,) = await memory.conversations.list("anna", PageRequest())
        (said,) = await memory.interactions.list("anna", conversation.id, PageRequest())
        assert await memory.pipelines.get("p") == {"description": "x"}
        return conversation, said

    assert during(opened, store) == during(opened, look)


def test_a_conversation_has_one_name_at_a_time_and_keeps_its_place(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        old = await memory.conversations.create("anna", "old")
        new = await memory.conversations.create("anna", "new")
        await memory.conversations.rename("anna", old.id, "renamed")
        listed = await memory.conversations.list("anna", PageRequest())

        assert [it.id for it in listed] == [new.id, old.id]
        assert [it.name for it in listed] == ["new", "renamed"]
        assert listed[1].created == old.created

    during(opened, work)


def test_the_additional_information_can_be_replaced_and_nothing_else_is(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        made = await memory.interactions.add("anna", conversation, SAID)
        await memory.interactions.annotate("anna", made.id, "liked")
        found = await memory.interactions.get("anna", made.id)

        assert found.turn == replace(SAID, additional_info="liked")
        assert (found.id, found.created) == (made.id, made.created)

    during(opened, work)


def test_a_conversation_goes_with_all_that_was_said_in_it(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        gone = (await memory.conversations.create("anna", "gone")).id
        stays = (await memory.conversations.create("anna", "stays")).id
        said = [await memory.interactions.add("anna", gone, SAID) for _ in range(5)]
        other = await memory.interactions.add("anna", stays, SAID)
        await memory.conversations.delete("anna", gone)

        with pytest.raises(NotFound, match=re.escape(f"Conversation [{gone}] not found")):
            await memory.conversations.get("anna", gone)
        for each in said:
            with pytest.raises(NotFound):
                await memory.interactions.get("anna", each.id)
        with pytest.raises(NotFound):
            await memory.interactions.add("anna", gone, SAID)
        with pytest.raises(NotFound):
            await memory.conversations.delete("anna", gone)
        assert await memory.interactions.list("anna", stays, PageRequest()) == (other,)

    during(opened, work)


def verbs(memory: Memory, conversation: str, interaction: str) -> dict[str, Any]:
    """Every call that names a conversation or an interaction, for some owner."""
    return {
        "get": lambda owner: memory.conversations.get(owner, conversation),
        "rename": lambda owner: memory.conversations.rename(owner, conversation, "stolen"),
        "delete": lambda owner: memory.conversations.delete(owner, conversation),
        "add": lambda owner: memory.interactions.add(owner, conversation, SAID),
        "get said": lambda owner: memory.interactions.get(owner, interaction),
        "list said": lambda owner: memory.interactions.list(owner, conversation, PageRequest()),
        "annotate": lambda owner: memory.interactions.annotate(owner, interaction, "stolen"),
    }


def test_what_is_anothers_looks_as_if_it_were_not_there(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        made = await memory.conversations.create("anna", "private")
        said = await memory.interactions.add("anna", made.id, SAID)
        mine = await memory.conversations.create("ben", "mine")
        missing = verbs(memory, "0" * len(made.id), "0" * len(said.id))
        for name, verb in verbs(memory, made.id, said.id).items():
            with pytest.raises(NotFound) as foreign:
                await verb("ben")
            with pytest.raises(NotFound) as absent:
                await missing[name]("ben")

            told = foreign.value.message.replace(made.id, "?").replace(said.id, "?")
            assert told == absent.value.message.replace("0" * len(made.id), "?"), name
        assert await memory.conversations.list("ben", PageRequest()) == (mine,)
        assert await memory.conversations.get("anna", made.id) == made
        assert await memory.interactions.list("anna", made.id, PageRequest()) == (said,)

    during(opened, work)


@pytest.mark.parametrize("odd", ODD)
def test_any_text_at_all_is_an_id_that_is_not_there(opened: OpenStore, odd: str) -> None:
    async def work(memory: Memory) -> None:
        for verb in verbs(memory, odd, odd).values():
            with pytest.raises(NotFound):
                await verb("anna")

    during(opened, work)


def test_the_id_of_one_kind_is_none_of_the_other(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        interaction = (await memory.interactions.add("anna", conversation, SAID)).id
        for verb in verbs(memory, interaction, conversation).values():
            with pytest.raises(NotFound):
                await verb("anna")

    during(opened, work)


def test_a_page_is_a_part_of_the_list_as_it_is_now(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        async def names(start: int) -> str:
            page = await memory.conversations.list("anna", PageRequest(start, 3))
            return "".join(it.name for it in page)

        for name in "HGFEDCB":
            await memory.conversations.create("anna", name)

        assert await names(0) == "BCD"
        await memory.conversations.create("anna", "A")
        assert await names(3) == "DEF"
        assert await names(6) == "GH"
        assert await names(8) == ""

    during(opened, work)


# What is done to a list of conversations: begin one, remove that at a place, read a page.
Deed = tuple[str, int, int]
DEEDS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "read"]), st.integers(0, 12), st.integers(1, 5)),
    max_size=25,
)


def check_pages(opened: OpenStore, deeds: list[Deed]) -> None:
    """Do some deeds with two lists, of conversations and of what is said in one."""

    async def work(memory: Memory) -> None:
        home = (await memory.conversations.create("ben", "home")).id
        listed: list[Any] = []
        said: list[Any] = []
        for deed, place, size in deeds:
            if deed == "create":
                listed.insert(0, await memory.conversations.create("anna", str(place)))
                said.insert(0, await memory.interactions.add("ben", home, Turn(str(place))))
            if deed == "delete" and place < len(listed):
                await memory.conversations.delete("anna", listed.pop(place).id)
            page = PageRequest(place, size)
            pages = await memory.conversations.list("anna", page)
            assert list(pages) == listed[place : place + size]
            newest = await memory.interactions.list("ben", home, page)
            assert list(newest) == said[place : place + size]
            oldest = await memory.interactions.list("ben", home, page, newest_first=False)
            assert list(oldest) == said[::-1][place : place + size]

    during(opened, work)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(deeds=DEEDS)
def test_pages_are_slices_of_the_sorted_list_whatever_was_done(deeds: list[Deed]) -> None:
    with TemporaryDirectory() as folder:
        check_pages(sqlite_store(Path(folder)), deeds)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(deeds=DEEDS)
def test_so_they_are_in_cosmos_db(account: FakeCosmos, deeds: list[Deed]) -> None:
    account.partitions.clear()
    check_pages(cosmos_store(account), deeds)


def test_what_is_begun_later_is_listed_first_also_when_the_clock_goes_back(
    opened: OpenStore,
) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        made = []
        for moment in (0, 0, -3600, -7200, 5):
            clock.at = 1_700_000_000 + moment
            made.append(await memory.conversations.create("anna", ""))

        assert list(await memory.conversations.list("anna", EVERYTHING)) == made[::-1]
        assert sorted({it.created for it in made}) == [it.created for it in made]

    during(opened, work, now=clock)


def test_many_at_once_lose_nothing(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        adding = (
            memory.interactions.add("anna", conversation, Turn(str(number))) for number in range(30)
        )
        added = await asyncio.gather(*adding)
        found = await memory.interactions.list("anna", conversation, EVERYTHING)

        assert {it.id for it in found} == {it.id for it in added}
        assert {it.turn.input for it in found} == {str(number) for number in range(30)}

    during(opened, work)


def test_conversations_past_their_time_are_gone_with_what_was_said(opened: OpenStore) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        old = await memory.conversations.create("anna", "old")
        clock.at += 50
        said = await memory.interactions.add("anna", old.id, SAID)
        new = await memory.conversations.create("anna", "new")
        clock.at += 49
        assert len(await memory.conversations.list("anna", PageRequest())) == 2
        clock.at += 2

        assert await memory.conversations.list("anna", PageRequest()) == (new,)
        for verb in verbs(memory, old.id, said.id).values():
            with pytest.raises(NotFound):
                await verb("anna")

    during(opened, work, retention_seconds=100.0, now=clock)


def test_a_change_does_not_prolong_a_conversation(opened: OpenStore) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        made = await memory.conversations.create("anna", "old")
        clock.at += 90
        await memory.conversations.rename("anna", made.id, "renamed")
        said = await memory.interactions.add("anna", made.id, SAID)
        await memory.interactions.annotate("anna", said.id, "late")
        clock.at += 11

        assert await memory.conversations.list("anna", PageRequest()) == ()
        with pytest.raises(NotFound):
            await memory.interactions.get("anna", said.id)

    during(opened, work, retention_seconds=100.0, now=clock)


def test_without_a_limit_nothing_is_ever_gone(opened: OpenStore) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        made = await memory.conversations.create("anna", "old")
        clock.at += 100 * 365 * 86400

        assert await memory.conversations.list("anna", PageRequest()) == (made,)

    during(opened, work, now=clock)


def test_an_owner_has_so_many_conversations_at_most(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        made = [await memory.conversations.create("anna", str(number)) for number in range(3)]
        await memory.interactions.add("anna", made[0].id, SAID)
        with pytest.raises(BadRequest, match=r"limit of 3 stored conversations.*delete"):
            await memory.conversations.create("anna", "one too many")
        mine = await memory.conversations.create("ben", "mine")

        assert await memory.conversations.list("anna", EVERYTHING) == tuple(made[::-1])
        assert await memory.conversations.list("ben", EVERYTHING) == (mine,)
        await memory.conversations.delete("anna", made[0].id)
        last = await memory.conversations.create("anna", "in its place")
        assert await memory.conversations.list("anna", EVERYTHING) == (last, made[2], made[1])

    during(opened, work, max_conversations=3)


def test_a_limit_holds_for_what_an_earlier_limit_let_in(opened: OpenStore) -> None:
    async def fill(memory: Memory) -> None:
        for number in range(5):
            await memory.conversations.create("anna", str(number))

    async def work(memory: Memory) -> None:
        with pytest.raises(BadRequest):
            await memory.conversations.create("anna", "one too many")
        assert len(await memory.conversations.list("anna", EVERYTHING)) == 5

    during(opened, fill)
    during(opened, work, max_conversations=2)


def test_a_pipeline_is_the_one_that_was_put_last(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        pipelines = memory.pipelines
        assert (await pipelines.get("p"), await pipelines.all()) == (None, {})
        await pipelines.put("p", {"response_processors": [{"x": {"y": [1, 2.5, None]}}]})
        await pipelines.put("p", {"description": "second"})
        await pipelines.put("a b/c?é", {})

        assert await pipelines.get("p") == {"description": "second"}
        assert await pipelines.get("a b/c?é") == {}
        assert dict(await pipelines.all()) == {"p": {"description": "second"}, "a b/c?é": {}}
        assert (await pipelines.delete("p"), await pipelines.delete("p")) == (True, False)
        assert await pipelines.get("p") is None
        assert list(await pipelines.all()) == ["a b/c?é"]

    during(opened, work)


def test_a_store_says_that_it_is_ready(opened: OpenStore) -> None:
    during(opened, lambda memory: memory.ready())
