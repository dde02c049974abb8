"""Responses that are stored: retrieval, branches, owners, deletion, over both stores."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from shared.app import handle_call
from shared.domain import errors
from shared.domain.events import Delta, Done
from shared.domain.messages import ToolCall
from shared.http.auth import ApiKeyPolicy
from shared.http.call import Limits
from shared.memory.base import Interaction, Interactions, PageRequest, Turn
from shared.protocols.openai.responses import storage
from tests.support.calls import ANNA, BEN, CHAT_KEY, JSON, call, read, read_events
from tests.support.fakes import (
    FailingConversations,
    FailingInteractions,
    FakeModel,
    ScriptStep,
    make_rag,
)
from tests.support.stored_responses import ROUTE, SIGN_IN, FakeApp, run
from tests.support.stores import OpenStore, account, opened

__all__ = ["account", "opened"]

WEATHER = {"type": "function", "name": "weather"}
SEARCH = {"type": "file_search", "vector_store_ids": ["docs"]}
CALL: tuple[ScriptStep, ...] = (
    Delta("Looking."),
    Delta(tool_calls=(ToolCall(0, "c1", "weather", "{}"),)),
    Done("tool_calls"),
)


class CountingInteractions:
    """Interactions of a memory that counts how many are read by their ids."""

    def __init__(self, inner: Interactions) -> None:
        self.inner, self.reads = inner, 0

    async def get(self, owner: str, interaction: str) -> Interaction:
        self.reads += 1
        return await self.inner.get(owner, interaction)


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_returned_as_it_was(opened: OpenStore, stream: bool) -> None:
    async def work(app: FakeApp) -> None:
        reply = await app.create(metadata={"a": "b"}, stream=stream, temperature=0.5)
        first = read_events(reply)[0]["response"] if stream else reply.json
        answer = read_events(reply)[-1]["response"] if stream else reply.json
        stored = (await app.send("GET", answer["id"])).json
        items = (await app.send("GET", f"{answer['id']}/input_items")).json

        assert (first["id"], first["store"], answer["store"]) == (answer["id"], True, True)
        assert {**stored, "completed_at": None} == {**answer, "completed_at": None}
        (item,) = items["data"]
        assert items["object"] == "list"
        assert item["content"] == [{"type": "input_text", "text": "Hello?"}]
        assert (items["first_id"], items["has_more"]) == (item["id"], False)
        for path in (answer["id"], f"{answer['id']}/input_items"):
            assert (await app.send("HEAD", path)).status == 200
        without_prefix = answer["id"].removeprefix("resp_")
        assert (await app.send("GET", without_prefix)).status == 404

    run(opened, work)


def test_a_response_continues_another_and_a_branch_hears_no_other(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        first = await app.answer("One?")
        second = await app.answer("Two?", previous_response_id=first)
        await app.answer("Other?", previous_response_id=first)
        assert app.texts == ["One?", "Yes.", "Other?"]
        reply = await app.create("Three?", previous_response_id=second)
        assert app.texts == ["One?", "Yes.", "Two?", "Yes.", "Three?"]
        assert reply.json["previous_response_id"] == second
        (conversation,) = await app.memory.conversations.list("local", PageRequest())
        assert conversation.name == "One?"

    run(opened, work)


def test_the_ten_newest_turns_are_the_history(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        previous = await app.answer("0")
        for number in range(1, 13):
            other = await app.answer("branch", previous_response_id=previous)
            assert other
            previous = await app.answer(str(number), previous_response_id=previous)

        assert app.texts[::2] == [str(number) for number in range(2, 13)]

    run(opened, work)


def test_instructions_of_an_earlier_response_are_not_carried_on(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        items = [{"role": "system", "content": "Rhyme."}, {"role": "user", "content": "One?"}]
        app.service = replace(app.service, rag=replace(make_rag(app.model), client_prompts=True))
        first = await app.answer(items, instructions="Be brief.")
        assert app.texts == ["Be brief.", "Rhyme.", "One?"]
        assert (await app.send("GET", first)).json["instructions"] is None
        await app.answer("Two?", previous_response_id=first, instructions="Be long.")
        assert app.texts == ["Be long.", "One?", "Yes.", "Two?"]

    run(opened, work)


def test_a_call_is_continued_by_its_output_alone(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        app.model.script = CALL
        first = await app.answer("Weather?", tools=[WEATHER])
        app.model.script = (Delta("Sunny."), Done())
        output = {"type": "function_call_output", "call_id": "c1", "output": "sun"}
        second = await app.answer([output], previous_response_id=first)
        assert app.texts == ["Weather?", "Looking.", "", "sun"]
        wrong = await app.create([{**output, "call_id": "c2"}], previous_response_id=first)
        assert (wrong.status, wrong.json["error"]["param"]) == (400, "input[0].call_id")
        await app.answer("And?", previous_response_id=second)
        assert app.texts == ["Weather?", "Looking.", "", "sun", "Sunny.", "And?"]
        roles = [message.role for message in app.model.calls[-1].messages[1:]]
        assert roles == ["user", "assistant", "assistant", "tool", "assistant", "user"]
        assert app.model.calls[-1].messages[4].tool_call_id == "c1"

    run(opened, work)


def test_a_reference_stands_for_a_stored_item(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        app.model.script = CALL
        output = (await app.create("Weather?", tools=[WEATHER, SEARCH])).json["output"]
        app.model.script = (Delta("Sunny."), Done())
        references = [{"type": "item_reference", "id": item["id"]} for item in output]
        result = {"type": "function_call_output", "call_id": "c1", "output": "sun"}
        items = [{"role": "user", "content": "Weather?"}, *references, result]
        await app.answer(items, store=False)
        assert app.texts == ["Weather?", "Looking.", "", "sun"]
        for id in (f"{output[1]['id']}x", f"{output[2]['id']}9"):
            missing = await app.create([{"type": "item_reference", "id": id}])
            assert (missing.status, missing.json["error"]["code"]) == (404, "item_not_found")
            assert "is not stored here" in missing.json["error"]["message"]

    run(opened, work)


def test_a_response_that_many_items_reference_is_read_once(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        item = (await app.create("One?")).json["output"][0]
        interactions = CountingInteractions(app.memory.interactions)
        app.service = replace(
            app.service, memory=replace(app.memory, interactions=cast(Any, interactions))
        )
        reference = {"type": "item_reference", "id": item["id"]}
        question = {"role": "user", "content": "Two?"}
        await app.answer([*[reference] * 100, question], store=False)
        assert app.texts == [*["Yes."] * 100, "Two?"]
        assert interactions.reads == 1

    run(opened, work)


def test_a_deleted_response_is_gone_for_every_protocol(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        first = await app.answer("One?")
        second = await app.answer("Two?", previous_response_id=first)
        deleted = await app.send("DELETE", first)
        assert deleted.json == {"id": first, "object": "response", "deleted": True}
        for method, path in (("GET", first), ("DELETE", first), ("GET", f"{first}/input_items")):
            reply = await app.send(method, path)
            assert (reply.status, reply.json["error"]["code"]) == (404, "not_found")
        again = await app.create("Three?", previous_response_id=first)
        assert (again.status, again.json["error"]["code"]) == (400, "previous_response_not_found")
        await app.answer("Three?", previous_response_id=second)
        assert app.texts == ["Two?", "Yes.", "Three?"]

    run(opened, work)


async def views(app: FakeApp) -> str:
    """All that the owner can read of stored conversations, over OpenSearch's routes."""
    texts: list[str] = []
    for conversation in await app.memory.conversations.list("local", PageRequest(0, 100)):
        for path in ("/_plugins/_ml/memory/{id}", "/_plugins/_ml/memory/{id}/messages"):
            request = call(path, [b""], method="GET", path=conversation.id)
            texts.append((await read(await handle_call(app.service, request))).data.decode())
    return "\n".join(texts)


def test_the_question_of_a_deleted_response_names_no_conversation(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        first = await app.answer("Secret?")
        second = await app.answer("Two?", previous_response_id=first)
        branch = await app.answer("Three?", previous_response_id=first)
        assert (await views(app)).count("Secret?") == 2  # the name and the question
        await app.send("DELETE", first)
        assert "Secret?" not in await views(app)
        (conversation,) = await app.memory.conversations.list("local", PageRequest())
        assert conversation.name == "Two?"
        await app.send("DELETE", branch)
        assert (await app.memory.conversations.get("local", conversation.id)).name == "Two?"
        await app.send("DELETE", second)
        assert await app.memory.conversations.list("local", PageRequest()) == ()

    run(opened, work)


def test_a_name_that_the_user_gave_stays_until_the_last_turn_is_deleted(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        first = await app.answer("One?")
        second = await app.answer("Two?", previous_response_id=first)
        (conversation,) = await app.memory.conversations.list("local", PageRequest())
        await app.memory.conversations.rename("local", conversation.id, "My plan")
        await app.send("DELETE", first)
        assert (await app.memory.conversations.get("local", conversation.id)).name == "My plan"
        await app.send("DELETE", second)
        assert await app.memory.conversations.list("local", PageRequest()) == ()

    run(opened, work)


@pytest.mark.parametrize("left", [0, 1])
def test_responses_that_are_deleted_at_once_leave_nothing(opened: OpenStore, left: int) -> None:
    async def work(app: FakeApp) -> None:
        ids = [await app.answer("Secret 0?")]
        for number in range(1, 5):
            ids.append(await app.answer(f"Secret {number}?", previous_response_id=ids[-1]))
        if left:
            await app.answer("Open?", previous_response_id=ids[-1])
        replies = await asyncio.gather(*(app.send("DELETE", id) for id in ids))
        assert {reply.status for reply in replies} <= {200, 404}
        names = [each.name for each in await app.memory.conversations.list("local", PageRequest())]
        assert names == ["Open?"] * left
        assert "Secret" not in await views(app)

    run(opened, work)


def test_a_turn_of_another_protocol_is_no_response_whatever_its_origin(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        conversation = await app.memory.conversations.create("local", "x")
        turn = Turn("One?", response="Yes.", origin="responses")
        stored = await app.memory.interactions.add("local", conversation.id, turn)
        for method, path in (("GET", ""), ("GET", "/input_items"), ("DELETE", "")):
            reply = await app.send(method, f"resp_{stored.id}{path}")
            assert reply.status == 404
        again = await app.create("Two?", previous_response_id=f"resp_{stored.id}")
        assert again.json["error"]["code"] == "previous_response_not_found"
        item = {"type": "item_reference", "id": f"msg_{stored.id}"}
        referring = await app.create([item, {"role": "user", "content": "Two?"}])
        assert referring.status == 404

    run(opened, work)


def test_a_chat_continues_the_conversation_of_a_response(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        await app.answer("One?")
        (conversation,) = await app.memory.conversations.list("local", PageRequest())
        state = {"conversation_id": conversation.id}
        body = {"messages": [{"role": "user", "content": "Two?"}], "sessionState": state}
        assert (await read(await handle_call(app.service, call("/chat", body)))).status == 200
        assert app.texts[:2] == ["One?", "Yes."]
        newest, _ = await app.memory.interactions.list("local", conversation.id, PageRequest())
        reply = await app.send("GET", f"resp_{newest.id}")
        assert reply.status == 404  # a turn of another protocol is no response

    run(opened, work)


def test_users_have_their_own_responses(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        reply = await app.create(headers=ANNA)
        id = reply.json["id"]
        item = {"type": "item_reference", "id": reply.json["output"][0]["id"]}
        user = {"role": "user", "content": "And?"}
        assert (await app.send("GET", id, headers=ANNA)).status == 200
        assert (await app.create("And?", ANNA, previous_response_id=id)).status == 200
        for headers in (BEN, {**JSON, "api-key": CHAT_KEY}):
            unknown = await app.create("And?", headers, previous_response_id=id)
            assert (unknown.status, unknown.json["error"]["param"]) == (
                400,
                "previous_response_id",
            )
            assert (await app.create([item, user], headers)).status == 404
            for method, path in (("GET", id), ("GET", f"{id}/input_items"), ("DELETE", id)):
                assert (await app.send(method, path, headers=headers)).status == 404
        assert (await app.send("GET", id, headers=ANNA)).status == 200

    run(opened, work, SIGN_IN, api_key=ApiKeyPolicy(CHAT_KEY))


@pytest.mark.parametrize("stream", [False, True])
def test_nothing_is_stored_without_an_owner_or_on_request(opened: OpenStore, stream: bool) -> None:
    async def work(app: FakeApp) -> None:
        for headers, body in (
            ({**JSON, "api-key": CHAT_KEY}, {}),
            (ANNA, {"store": False}),
        ):
            reply = await app.create(headers=headers, stream=stream, **body)
            answer = read_events(reply)[-1]["response"] if stream else reply.json
            assert answer["store"] is False
        assert await app.memory.conversations.list("anna", PageRequest()) == ()

    run(opened, work, SIGN_IN, api_key=ApiKeyPolicy(CHAT_KEY))


def test_the_reason_why_there_is_no_previous_response_is_named(opened: OpenStore) -> None:
    async def ask(app: FakeApp) -> str:
        headers = {**JSON, "api-key": CHAT_KEY}
        reply = await app.create("And?", headers, previous_response_id="resp_1")
        assert (reply.status, reply.json["error"]["code"]) == (400, "previous_response_not_found")
        return str(reply.json["error"]["message"])

    async def without_memory(app: FakeApp) -> str:
        app.service = replace(app.service, memory=None)
        return await ask(app)

    key = ApiKeyPolicy(CHAT_KEY)
    reasons = (
        run(opened, without_memory),
        run(opened, ask, SIGN_IN, api_key=key),
        run(opened, ask),
    )

    for reason, part in zip(reasons, ("MEMORY_FILE", "signed-in", "resp_1"), strict=True):
        assert part in reason
        assert "Send the earlier items in input." in reason


@pytest.mark.parametrize(
    "script",
    [
        (Delta("Yes"), errors.ContentFiltered()),
        (Delta("Yes"), errors.Unavailable()),
        (Delta("Yes"), RuntimeError()),
    ],
)
def test_an_answer_that_breaks_off_is_not_stored(
    opened: OpenStore, script: tuple[ScriptStep, ...]
) -> None:
    async def work(app: FakeApp) -> None:
        reply = await app.create(stream=True)
        id = read_events(reply)[0]["response"]["id"]
        assert (await app.send("GET", id)).status == 404
        assert await app.memory.conversations.list("local", PageRequest()) == ()

    run(opened, work, model=FakeModel(script))


def test_an_answer_that_the_client_left_is_not_stored(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        request = call(ROUTE, {"input": "Hello?", "stream": True})
        reply = await handle_call(app.service, request)
        assert reply.rest is not None
        await anext(reply.rest)
        await reply.rest.aclose()
        assert await app.memory.conversations.list("local", PageRequest()) == ()
        assert app.model.open_streams == 0

    run(opened, work, model=FakeModel((Delta("Yes"), asyncio.Event(), Done())))


@pytest.mark.parametrize("part", ["conversations", "interactions"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_memory_that_fails_costs_no_answer(opened: OpenStore, part: str, stream: bool) -> None:
    async def work(app: FakeApp) -> None:
        failing: Any = {
            "conversations": FailingConversations(app.memory.conversations, errors.Unavailable()),
            "interactions": FailingInteractions(app.memory.interactions, errors.Unavailable()),
        }[part]
        app.service = replace(app.service, memory=replace(app.memory, **{part: failing}))
        reply = await app.create(stream=stream)
        answer = read_events(reply)[-1]["response"] if stream else reply.json
        assert answer["status"] == "completed"
        if not stream:
            assert "could not be stored" in reply.headers["x-chat-notice"]
        assert (await app.send("GET", answer["id"])).status == 404

    run(opened, work)


class StalledInteractions(FailingInteractions):
    """Interactions of a memory that returns none of them."""

    def __init__(self, inner: Interactions) -> None:
        super().__init__(inner, errors.Unavailable())
        self.get = self.wait

    async def wait(self, owner: str, interaction: str) -> Interaction:
        await asyncio.Event().wait()
        raise AssertionError("it never ends")


def test_a_memory_that_stalls_ends_with_the_time_of_the_request(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        stalled = StalledInteractions(app.memory.interactions)
        app.service = replace(app.service, memory=replace(app.memory, interactions=stalled))
        reply = await app.create(previous_response_id="resp_1")
        assert (reply.status, reply.json["error"]["code"]) == (504, "server_error")

    run(opened, work, limits=Limits(request_seconds=0.2))


def test_an_answer_that_is_too_large_is_not_stored(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        reply = await app.create("x " * storage.MAX_DETAILS)
        assert storage.TOO_LARGE in reply.headers["x-chat-notice"]
        assert (await app.send("GET", reply.json["id"])).status == 404

    run(opened, work, model=FakeModel(max_prompt_tokens=10_000_000))


def test_an_answer_with_half_a_character_is_stored(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        first = await app.answer()
        (item,) = (await app.send("GET", first)).json["output"]
        assert item["content"][0]["text"] == "Yes ?"

    run(opened, work, model=FakeModel((Delta("Yes \ud83d"), Done())))


def test_images_are_not_stored(opened: OpenStore) -> None:
    async def work(app: FakeApp) -> None:
        image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
        text = {"type": "input_text", "text": "What is it?"}
        first = await app.answer([{"role": "user", "content": [text, image]}])
        interaction = await app.memory.interactions.get("local", first.removeprefix("resp_"))
        assert "base64" not in interaction.turn.details
        await app.answer("And?", previous_response_id=first)
        assert app.texts == ["What is it?", "Yes.", "And?"]

    run(opened, work)


@pytest.mark.parametrize("id", ["x", "resp_", "resp_x", "resp_" + "y" * 5000, "resp_é 漢", "%00"])
def test_an_unknown_response_is_a_404(opened: OpenStore, id: str) -> None:
    async def work(app: FakeApp) -> None:
        for method, path in (("GET", id), ("DELETE", id), ("GET", f"{id}/input_items")):
            reply = await app.send(method, path)
            assert (reply.status, reply.json["error"]["code"]) == (404, "not_found")
            assert f"the id {id!r:.100}" in reply.json["error"]["message"]
        again = await app.create("?", previous_response_id=id[:100])
        assert f"the id {id[:100]!r:.100}" in again.json["error"]["message"]
        canceled = await app.send("POST", f"{id}/cancel")
        assert canceled.status == 400

    run(opened, work)
