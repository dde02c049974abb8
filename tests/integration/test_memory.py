"""The contract of the memory protocols, for each store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.domain.errors import BadRequest, NotFound
from shared.memory.base import Memory, PageRequest, TooManyBytes, Turn
from tests.support.fake_cosmos import FakeCosmos
from tests.support.stores import FakeClock, OpenStore, account, cosmos_store, opened, sqlite_store

__all__ = ["account", "opened"]  # fixtures

TURN = Turn(
    input="What is covered?",
    prompt_template="Answer.",
    response="Dental care.",
    origin="chat",
    additional_info='["a.md: teeth"]',
    parent="p1",
    details='{"a": 1}',
    request="request-1",
    feedback='{"rating": "up"}',
)
EVERYTHING = PageRequest(0, 1000)
UNUSUAL_IDS = [
    "",
    "a/b",
    "../x",
    "x" * 5000,
    "%00",
    "'; DROP TABLE conversation; --",
    "?#\\",
    "é 漢",
]


def run(opened: OpenStore, work: Callable[[Memory], Awaitable[Any]], **how: Any) -> Any:
    """Return the result of some work with a store."""

    async def go() -> Any:
        async with opened(**how) as memory:
            return await work(memory)

    return asyncio.run(go())


def test_a_created_conversation_is_returned_unchanged(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        created = await memory.conversations.create("anna", "Example conversation")

        assert created.name == "Example conversation"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", created.created)
        assert re.fullmatch(r"\w+", created.id)
        assert await memory.conversations.get("anna", created.id) == created
        assert await memory.conversations.list("anna", PageRequest()) == (created,)

    run(opened, work)


def test_an_added_interaction_is_returned_unchanged(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        unusual = Turn("漢字 \U0001f600 \x00 \u2028", response="line\nline", additional_info="{")
        conversation = (await memory.conversations.create("anna", "")).id
        first = await memory.interactions.add("anna", conversation, TURN)
        second = await memory.interactions.add("anna", conversation, unusual)

        assert (first.turn, second.turn) == (TURN, unusual)
        assert first.conversation == conversation
        assert first.created < second.created
        assert await memory.interactions.get("anna", first.id) == first
        assert await memory.interactions.list("anna", conversation, PageRequest()) == (
            second,
            first,
        )
        in_order = await memory.interactions.list("anna", conversation, PageRequest(), False)
        assert in_order == (first, second)

    run(opened, work)


def test_texts_of_the_maximum_length_are_stored(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        for character in ("x", "漢", "\U0001f600"):
            long = Turn(input="a", additional_info=character * 80_000)
            conversation = (await memory.conversations.create("anna", character * 1000)).id
            created = await memory.interactions.add("anna", conversation, long)
            await memory.interactions.annotate("anna", created.id, character * 80_000)
            await memory.conversations.rename("anna", conversation, character * 1000)

            assert (await memory.interactions.get("anna", created.id)).turn == long

    run(opened, work)


def test_data_persists_when_the_store_is_reopened(opened: OpenStore) -> None:
    async def store(memory: Memory) -> Any:
        conversation = await memory.conversations.create("anna", "kept")
        await memory.pipelines.put("p", {"description": "x"})
        return conversation, await memory.interactions.add("anna", conversation.id, TURN)

    async def look(memory: Memory) -> Any:
        (conversation,) = await memory.conversations.list("anna", PageRequest())
        (interaction,) = await memory.interactions.list("anna", conversation.id, PageRequest())
        assert await memory.pipelines.get("p") == {"description": "x"}
        return conversation, interaction

    assert run(opened, store) == run(opened, look)


def test_a_renamed_conversation_keeps_its_position(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        old = await memory.conversations.create("anna", "old")
        new = await memory.conversations.create("anna", "new")
        await memory.conversations.rename("anna", old.id, "renamed")
        listed = await memory.conversations.list("anna", PageRequest())

        assert [it.id for it in listed] == [new.id, old.id]
        assert [it.name for it in listed] == ["new", "renamed"]
        assert listed[1].created == old.created

    run(opened, work)


def test_annotate_replaces_only_the_additional_information(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        created = await memory.interactions.add("anna", conversation, TURN)
        await memory.interactions.annotate("anna", created.id, "liked")
        stored = await memory.interactions.get("anna", created.id)

        assert stored.turn == replace(TURN, additional_info="liked")
        assert (stored.id, stored.created) == (created.id, created.created)

    run(opened, work)


def test_rate_replaces_only_the_feedback(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        created = await memory.interactions.add("anna", conversation, TURN)
        await memory.interactions.rate("anna", created.id, "bad")
        stored = await memory.interactions.get("anna", created.id)

        assert stored == replace(created, turn=replace(TURN, feedback="bad"))

    run(opened, work)


def test_the_newest_answer_to_a_request_is_found(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        mine = [(await memory.conversations.create("anna", "")).id for _ in range(2)]
        other = (await memory.conversations.create("ben", "")).id
        await memory.interactions.add("anna", mine[1], TURN)
        newest = await memory.interactions.add("anna", mine[0], TURN)
        await memory.interactions.add("anna", mine[1], replace(TURN, request="request-2"))
        await memory.interactions.add("anna", mine[1], replace(TURN, request=""))
        await memory.interactions.add("ben", other, TURN)

        assert await memory.interactions.find("anna", "request-1") == newest
        for owner, request in (("anna", "request-3"), ("anna", ""), ("ben", "request-2")):
            with pytest.raises(NotFound, match=re.escape(f"x-request-id [{request}]")):
                await memory.interactions.find(owner, request)
        for conversation in mine:
            await memory.conversations.delete("anna", conversation)
        with pytest.raises(NotFound):
            await memory.interactions.find("anna", "request-1")

    run(opened, work)


def test_feedback_counts_for_the_limit_of_bytes(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        added = await memory.interactions.add("anna", conversation, Turn())
        await memory.interactions.rate("anna", added.id, "x" * 2000)
        with pytest.raises(TooManyBytes):
            await memory.interactions.rate("anna", added.id, "y" * 2000)

        assert (await memory.interactions.get("anna", added.id)).turn.feedback == "x" * 2000

    run(opened, work, max_bytes=3000)


def test_a_conversation_is_deleted_with_its_interactions(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        gone = (await memory.conversations.create("anna", "gone")).id
        stays = (await memory.conversations.create("anna", "stays")).id
        interactions = [await memory.interactions.add("anna", gone, TURN) for _ in range(5)]
        other = await memory.interactions.add("anna", stays, TURN)
        await memory.conversations.delete("anna", gone)

        with pytest.raises(NotFound, match=re.escape(f"Conversation [{gone}] not found")):
            await memory.conversations.get("anna", gone)
        for each in interactions:
            with pytest.raises(NotFound):
                await memory.interactions.get("anna", each.id)
        with pytest.raises(NotFound):
            await memory.interactions.add("anna", gone, TURN)
        with pytest.raises(NotFound):
            await memory.conversations.delete("anna", gone)
        assert await memory.interactions.list("anna", stays, PageRequest()) == (other,)

    run(opened, work)


def calls_with_ids(memory: Memory, conversation: str, interaction: str) -> dict[str, Any]:
    """Return the calls that take an id, by name."""
    return {
        "get": lambda owner: memory.conversations.get(owner, conversation),
        "rename": lambda owner: memory.conversations.rename(owner, conversation, "stolen"),
        "delete": lambda owner: memory.conversations.delete(owner, conversation),
        "add": lambda owner: memory.interactions.add(owner, conversation, TURN),
        "read": lambda owner: memory.interactions.get(owner, interaction),
        "list": lambda owner: memory.interactions.list(owner, conversation, PageRequest()),
        "annotate": lambda owner: memory.interactions.annotate(owner, interaction, "stolen"),
        "rate": lambda owner: memory.interactions.rate(owner, interaction, "stolen"),
        "remove": lambda owner: memory.interactions.delete(owner, interaction),
    }


def test_data_of_another_owner_is_not_found(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        created = await memory.conversations.create("anna", "private")
        interaction = await memory.interactions.add("anna", created.id, TURN)
        mine = await memory.conversations.create("ben", "mine")
        missing = calls_with_ids(memory, "0" * len(created.id), "0" * len(interaction.id))
        for name, call in calls_with_ids(memory, created.id, interaction.id).items():
            with pytest.raises(NotFound) as foreign:
                await call("ben")
            with pytest.raises(NotFound) as absent:
                await missing[name]("ben")

            message = foreign.value.message.replace(created.id, "?").replace(interaction.id, "?")
            assert message == absent.value.message.replace("0" * len(created.id), "?"), name
        assert await memory.conversations.list("ben", PageRequest()) == (mine,)
        assert await memory.conversations.get("anna", created.id) == created
        assert await memory.interactions.list("anna", created.id, PageRequest()) == (interaction,)

    run(opened, work)


def test_the_error_for_an_unknown_or_deleted_id_names_it(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        gone = (await memory.conversations.create("anna", "")).id
        turn = (await memory.interactions.add("anna", gone, TURN)).id
        await memory.conversations.delete("anna", gone)
        for conversation, interaction in [(gone, turn), ("no/id", "no/id either")]:
            for name, call in calls_with_ids(memory, conversation, interaction).items():
                with pytest.raises(NotFound) as failure:
                    await call("anna")

                is_turn = name in ("read", "annotate", "rate", "remove")
                assert f"[{interaction if is_turn else conversation}]" in failure.value.message

    run(opened, work)


@pytest.mark.parametrize("id", UNUSUAL_IDS)
def test_any_text_is_an_unknown_id(opened: OpenStore, id: str) -> None:
    async def work(memory: Memory) -> None:
        for call in calls_with_ids(memory, id, id).values():
            with pytest.raises(NotFound):
                await call("anna")

    run(opened, work)


def test_an_id_of_the_other_type_is_not_found(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        interaction = (await memory.interactions.add("anna", conversation, TURN)).id
        for call in calls_with_ids(memory, interaction, conversation).values():
            with pytest.raises(NotFound):
                await call("anna")

    run(opened, work)


def test_a_page_is_a_slice_of_the_current_list(opened: OpenStore) -> None:
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

    run(opened, work)


# An action on a list of conversations, a position, and the size of a page.
Action = tuple[str, int, int]
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "read"]), st.integers(0, 12), st.integers(1, 5)),
    max_size=25,
)


def check_pages(opened: OpenStore, actions: list[Action]) -> None:
    """Check the pages of conversations, and of the interactions of one, after each action."""

    async def work(memory: Memory) -> None:
        home = (await memory.conversations.create("ben", "home")).id
        listed: list[Any] = []
        interactions: list[Any] = []
        for action, place, size in actions:
            if action == "create":
                listed.insert(0, await memory.conversations.create("anna", str(place)))
                interactions.insert(0, await memory.interactions.add("ben", home, Turn(str(place))))
            if action == "delete" and place < len(listed):
                await memory.conversations.delete("anna", listed.pop(place).id)
            page = PageRequest(place, size)
            pages = await memory.conversations.list("anna", page)
            assert list(pages) == listed[place : place + size]
            newest = await memory.interactions.list("ben", home, page)
            assert list(newest) == interactions[place : place + size]
            oldest = await memory.interactions.list("ben", home, page, newest_first=False)
            assert list(oldest) == interactions[::-1][place : place + size]

    run(opened, work)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=ACTIONS)
def test_pages_in_sqlite_are_slices_of_the_sorted_list(actions: list[Action]) -> None:
    with TemporaryDirectory() as folder:
        check_pages(sqlite_store(Path(folder)), actions)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=ACTIONS)
def test_pages_in_cosmos_db_are_slices_of_the_sorted_list(
    account: FakeCosmos, actions: list[Action]
) -> None:
    account.partitions.clear()
    check_pages(cosmos_store(account), actions)


def test_the_newest_is_first_even_if_the_clock_goes_back(
    opened: OpenStore,
) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        created = []
        for moment in (0, 0, -3600, -7200, 5):
            clock.at = 1_700_000_000 + moment
            created.append(await memory.conversations.create("anna", ""))

        assert list(await memory.conversations.list("anna", EVERYTHING)) == created[::-1]
        assert sorted({it.created for it in created}) == [it.created for it in created]

    run(opened, work, now=clock)


def test_concurrent_additions_are_all_stored(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        adding = (
            memory.interactions.add("anna", conversation, Turn(str(number))) for number in range(30)
        )
        added = await asyncio.gather(*adding)
        interactions = await memory.interactions.list("anna", conversation, EVERYTHING)

        assert {it.id for it in interactions} == {it.id for it in added}
        assert {it.turn.input for it in interactions} == {str(number) for number in range(30)}

    run(opened, work)


def test_an_expired_conversation_is_not_found(opened: OpenStore) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        old = await memory.conversations.create("anna", "old")
        clock.at += 50
        interaction = await memory.interactions.add("anna", old.id, TURN)
        new = await memory.conversations.create("anna", "new")
        clock.at += 49
        assert len(await memory.conversations.list("anna", PageRequest())) == 2
        clock.at += 2

        assert await memory.conversations.list("anna", PageRequest()) == (new,)
        for call in calls_with_ids(memory, old.id, interaction.id).values():
            with pytest.raises(NotFound):
                await call("anna")

    run(opened, work, retention_seconds=100.0, now=clock)


def test_a_change_does_not_extend_the_retention(opened: OpenStore) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        created = await memory.conversations.create("anna", "old")
        clock.at += 90
        await memory.conversations.rename("anna", created.id, "renamed")
        interaction = await memory.interactions.add("anna", created.id, TURN)
        await memory.interactions.annotate("anna", interaction.id, "late")
        clock.at += 11

        assert await memory.conversations.list("anna", PageRequest()) == ()
        with pytest.raises(NotFound):
            await memory.interactions.get("anna", interaction.id)

    run(opened, work, retention_seconds=100.0, now=clock)


def test_nothing_expires_without_a_retention(opened: OpenStore) -> None:
    clock = FakeClock()

    async def work(memory: Memory) -> None:
        created = await memory.conversations.create("anna", "old")
        clock.at += 100 * 365 * 86400

        assert await memory.conversations.list("anna", PageRequest()) == (created,)

    run(opened, work, now=clock)


def test_the_number_of_conversations_is_limited(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        created = [await memory.conversations.create("anna", str(number)) for number in range(3)]
        await memory.interactions.add("anna", created[0].id, TURN)
        with pytest.raises(BadRequest, match=r"limit of 3 stored conversations.*delete"):
            await memory.conversations.create("anna", "one too many")
        mine = await memory.conversations.create("ben", "mine")

        assert await memory.conversations.list("anna", EVERYTHING) == tuple(created[::-1])
        assert await memory.conversations.list("ben", EVERYTHING) == (mine,)
        await memory.conversations.delete("anna", created[0].id)
        last = await memory.conversations.create("anna", "in its place")
        assert await memory.conversations.list("anna", EVERYTHING) == (last, created[2], created[1])

    run(opened, work, max_conversations=3)


def test_a_lower_limit_keeps_existing_conversations(opened: OpenStore) -> None:
    async def fill(memory: Memory) -> None:
        for number in range(5):
            await memory.conversations.create("anna", str(number))

    async def work(memory: Memory) -> None:
        with pytest.raises(BadRequest):
            await memory.conversations.create("anna", "one too many")
        assert len(await memory.conversations.list("anna", EVERYTHING)) == 5

    run(opened, fill)
    run(opened, work, max_conversations=2)


def test_the_bytes_of_an_owner_are_limited(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        first, second = [await memory.conversations.create("anna", name) for name in "12"]
        turns = [await memory.interactions.add("anna", first.id, Turn("é" * 1000))]
        turns += [await memory.interactions.add("anna", second.id, Turn(response="x" * 2000))]
        for refused in (
            memory.interactions.add("anna", second.id, TURN),
            memory.interactions.annotate("anna", turns[0].id, "more"),
            memory.conversations.create("anna", "3"),
        ):
            with pytest.raises(BadRequest, match=r"limit of 0\.006 MB of stored.*delete"):
                await refused
        mine = await memory.conversations.create("ben", "mine")
        await memory.interactions.add("ben", mine.id, TURN)

        assert await memory.interactions.list("anna", first.id, EVERYTHING) == (turns[0],)
        await memory.interactions.delete("anna", turns[0].id)
        await memory.interactions.annotate("anna", turns[1].id, "x" * 3000)
        with pytest.raises(BadRequest):
            await memory.interactions.add("anna", first.id, TURN)
        await memory.conversations.delete("anna", second.id)
        assert (await memory.interactions.add("anna", first.id, TURN)).turn == TURN

    run(opened, work, max_bytes=6000)


def test_the_number_of_empty_turns_is_limited(opened: OpenStore) -> None:
    async def work(memory: Memory) -> int:
        conversation = (await memory.conversations.create("anna", "")).id
        with pytest.raises(BadRequest):
            for _ in range(20):
                await memory.interactions.add("anna", conversation, Turn("x"))
        return len(await memory.interactions.list("anna", conversation, EVERYTHING))

    assert run(opened, work, max_bytes=10_000) == 10


def test_put_replaces_a_pipeline(opened: OpenStore) -> None:
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

    run(opened, work)


def test_a_new_store_is_ready(opened: OpenStore) -> None:
    run(opened, lambda memory: memory.ready())


def test_an_interaction_gets_the_id_that_was_generated_before(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        new = memory.new_id()
        later = await memory.interactions.add("anna", conversation, TURN)
        added = await memory.interactions.add("anna", conversation, TURN, new)

        assert (added.id, added.created) == (new.id, new.created)
        assert await memory.interactions.get("anna", new.id) == added
        page = await memory.interactions.list("anna", conversation, EVERYTHING)
        assert page == (later, added)

    run(opened, work)


def test_a_deleted_interaction_is_gone_and_the_others_stay(opened: OpenStore) -> None:
    async def work(memory: Memory) -> None:
        conversation = (await memory.conversations.create("anna", "")).id
        first, second = [
            await memory.interactions.add("anna", conversation, TURN) for _ in range(2)
        ]
        for owner, id in (("ben", first.id), ("anna", "nothing"), ("anna", conversation)):
            with pytest.raises(NotFound):
                await memory.interactions.delete(owner, id)
        await memory.interactions.delete("anna", first.id)

        with pytest.raises(NotFound):
            await memory.interactions.get("anna", first.id)
        with pytest.raises(NotFound):
            await memory.interactions.delete("anna", first.id)
        assert await memory.interactions.list("anna", conversation, EVERYTHING) == (second,)

    run(opened, work)


@pytest.mark.parametrize("id", UNUSUAL_IDS)
def test_no_unusual_id_deletes_an_interaction(opened: OpenStore, id: str) -> None:
    async def work(memory: Memory) -> None:
        with pytest.raises(NotFound):
            await memory.interactions.delete("anna", id)

    run(opened, work)
