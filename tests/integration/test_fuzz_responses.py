"""The Responses API: requests near the right ones, answers in any pieces, users in any order."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.domain import errors
from shared.domain.events import Delta, Done
from shared.domain.messages import ToolCall
from shared.settings import read_settings as read_settings
from tests.support.calls import (
    ANNA,
    BEN,
    PNG_URL,
    BufferedReply,
    ask,
    call,
    close_models,
    local_service,
    read,
    read_events,
)
from tests.support.fakes import PLUS, STANDARD, FakeModel, ScriptStep, make_rag
from tests.support.fuzz import EXAMPLES, FUZZ, TIMEOUT, nearly_right, replaced, words
from tests.support.providers import provider_entry, provider_settings, run_gateways
from tests.support.servers import LAPTOP
from tests.support.stored_responses import SIGN_IN, FakeApp, run
from tests.support.stores import sqlite_store

ROUTE = "/v1/responses"
EVENT = TypeAdapter[Any](ResponseStreamEvent)
SECRET = "Rumpelstiltskin"
SEARCH = {"type": "file_search", "vector_store_ids": ["docs"], "max_num_results": 7}
FILTER = {"type": "ne", "key": "category", "value": "a"}
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object"},
    "strict": True,
}
SCHEMA = {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
PAIR = [
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sun"},
]
parts = st.one_of(
    words.map(lambda text: {"type": "input_text", "text": text}),
    words.map(lambda text: {"type": "output_text", "text": text, "annotations": []}),
    st.just({"type": "refusal", "refusal": "No."}),
    st.just({"type": "input_image", "image_url": PNG_URL, "detail": "low"}),
)
message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "developer", "user", "assistant"]),
        "content": words | st.lists(parts, min_size=1, max_size=3),
    },
    optional={"type": st.just("message"), "id": words, "phase": words},
)
items = st.one_of(
    message.map(lambda item: [item]),
    st.just(PAIR),
    st.just([{"type": "reasoning", "id": "rs_1", "summary": []}]),
    st.just([{"type": "file_search_call", "id": "fs_1", "queries": ["x"]}]),
)
question = {"role": "user", "content": "Hello?"}
inputs = words | st.lists(items, max_size=3).map(
    lambda lists: [*(item for each in lists for item in each), question]
)
searches = st.sampled_from([SEARCH, {**SEARCH, "filters": FILTER}])
tools = st.one_of(
    st.just([WEATHER]),
    searches.map(lambda search: [search]),
    searches.map(lambda search: [WEATHER, search]),
)
bodies = st.fixed_dictionaries(
    {"input": inputs},
    optional={
        "model": st.sampled_from(["openai", None]),
        "instructions": words | st.none(),
        "stream": st.booleans() | st.none(),
        "temperature": st.floats(0, 2) | st.none(),
        "top_p": st.floats(0, 1) | st.none(),
        "max_output_tokens": st.integers(1, 99) | st.none(),
        "tools": tools,
        "tool_choice": st.sampled_from(["auto", "none", "required", None]),
        "parallel_tool_calls": st.booleans(),
        "text": st.sampled_from([{"format": SCHEMA, "verbosity": "low"}, {}, None]),
        "reasoning": st.sampled_from([{"effort": "low", "summary": "auto"}, {}, None]),
        "metadata": st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
        "store": st.booleans(),
        "include": st.just(["file_search_call.results", "reasoning.encrypted_content"]),
        "background": st.just(False),
        "truncation": st.just("auto"),
        "unheard_of": words,
    },
)


def check_error(reply: BufferedReply) -> None:
    """Check that an error has its form, and does not repeat what the client sent."""
    error = reply.json["error"]

    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"]
    assert isinstance(error["code"], str)
    assert SECRET not in error["message"]


def check_answer(reply: BufferedReply) -> Any:
    """Check that an answer or each event of a stream has the published type. Returns its end."""
    if reply.media_type != "text/event-stream":
        Response.model_validate(reply.json)
        return reply.json
    events = read_events(reply)
    for event in events:
        EVENT.validate_python(event)

    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    return events[-1]["response"]


@FUZZ
@given(bodies)
def test_each_right_request_is_answered_in_the_published_types(body: Any) -> None:
    reply = ask(call(ROUTE, body))

    assert reply.status == 200, reply.data
    assert check_answer(reply)["status"] == "completed"


def test_hundreds_of_requests_near_the_right_ones_never_end_in_a_500() -> None:
    statuses: Counter[int] = Counter()

    async def answer(data: bytes) -> BufferedReply:
        service = build(read_settings({**LAPTOP, **providers}))
        try:
            async with asyncio.timeout(TIMEOUT):
                return await read(await handle_call(service, call(ROUTE, data)))
        finally:
            await close_models(service)

    @FUZZ
    @given(nearly_right(bodies))
    def each(data: bytes) -> None:
        reply = asyncio.run(answer(data))
        statuses[reply.status] += 1

        assert reply.status in (200, 400, 404), (reply.status, data)
        if reply.status != 200:
            check_error(reply)

    with run_gateways("openai") as (server,):
        providers = provider_settings(provider_entry("openai", server, models=["openai"]))
        each()

    assert statuses.total() >= EXAMPLES
    assert statuses[200] >= statuses.total() / 3, statuses
    assert statuses[400] >= statuses.total() / 10, statuses


@FUZZ
@given(bodies, st.randoms(use_true_random=True))
def test_an_error_does_not_repeat_a_value_of_the_client(body: Any, chance: Any) -> None:
    body = json.loads(json.dumps(body))
    replaced(body, chance, chance.choice([SECRET, [SECRET], {"type": SECRET}]))
    reply = ask(call(ROUTE, body))

    assert reply.status in (200, 400, 404), (reply.status, body)
    if reply.status != 200:
        check_error(reply)


pieces = st.lists(
    st.sampled_from(
        [f"[{PLUS.sourcepage}]", f"[{STANDARD.sourcepage}]", "[", "]", "[x]", "é\U0001f600", "\n"]
    )
    | words,
    max_size=8,
).map("".join)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[ScriptStep], list[ScriptStep]]:
    """An answer of text and calls, whole and in pieces."""
    text, count = draw(pieces), draw(st.integers(0, 3))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    whole: list[ScriptStep] = [Delta(text)] if text else []
    cut: list[ScriptStep] = [
        Delta(text[begin:end]) for begin, end in zip([0, *cuts], [*cuts, None], strict=True)
    ]
    for index in range(count):
        begin = ToolCall(index, draw(st.sampled_from(["c", None])), "weather")
        arguments = draw(st.lists(st.sampled_from(["{", "}", '"a"', ""]), max_size=4))
        more = [ToolCall(index, arguments=each) for each in arguments]
        cut += [Delta(tool_calls=(part,)) for part in (begin, *more)]
        whole.append(Delta(tool_calls=(begin, *more)))
    done = Done(draw(st.sampled_from(["stop", "length", "tool_calls"])))
    return [*whole, done], [*cut, done]


def respond(script: Sequence[ScriptStep], **body: Any) -> BufferedReply:
    """The reply to a question whose answer is a script."""
    service = local_service(make_rag(FakeModel(script)))
    return ask(call(ROUTE, {"input": "Hello?", "tools": [WEATHER], **body}), service)


@FUZZ
@given(scripts(), st.sampled_from([[WEATHER], [WEATHER, SEARCH]]))
def test_a_stream_ends_with_the_whole_answer_in_whatever_pieces_it_comes(
    script: tuple[list[ScriptStep], list[ScriptStep]], tools: Any
) -> None:
    whole = check_answer(respond(script[0], tools=tools))
    end = check_answer(respond(script[1], tools=tools, stream=True))

    for name in ("output", "status", "incomplete_details", "usage"):
        assert end[name] == whole[name]


FAILURES = [errors.ContentFiltered(), errors.TooManyRequests(), RuntimeError(SECRET)]


@FUZZ
@given(scripts(), st.integers(0, 20), st.sampled_from(FAILURES))
def test_a_stream_that_fails_ends_with_one_event(
    script: tuple[list[ScriptStep], list[ScriptStep]], place: int, failure: Exception
) -> None:
    steps = [*script[1][:-1]]
    steps.insert(1 + place % len(steps), failure)
    end = check_answer(respond(steps, stream=True))

    assert end["status"] == ("incomplete" if failure is FAILURES[0] else "failed")
    assert SECRET not in json.dumps(end)


@dataclass(frozen=True)
class StoredResponse:
    """A response that was stored: what its history hears, if it is not deleted."""

    owner: str
    texts: tuple[str, str]
    previous: str | None


@dataclass
class Users:
    """Two users of an app, and what each must be able to see."""

    app: FakeApp
    ids: list[str] = field(default_factory=lambda: ["resp_x"])  # of all responses there ever were
    stored: dict[str, StoredResponse] = field(default_factory=dict)

    def is_visible(self, id: str, user: str) -> bool:
        return id in self.stored and self.stored[id].owner == user

    def history(self, id: str | None) -> list[str]:
        """The texts of the ten newest turns that lead to a response."""
        texts: list[str] = []
        while id in self.stored and len(texts) < 20:
            texts, id = [*self.stored[id].texts, *texts], self.stored[id].previous
        return texts

    async def create(self, user: str, id: str, store: bool, previous: str | None = None) -> None:
        question, answer = f"Q{len(self.ids)}", f"A{len(self.ids)}"
        self.app.model.script = (Delta(answer), Done())
        body = {"store": store, "previous_response_id": previous}
        reply = await self.app.create(question, HEADERS[user], **body)
        if previous is not None and not self.is_visible(previous, user):
            assert reply.json["error"]["code"] == "previous_response_not_found"
            return
        assert self.app.texts == [*self.history(previous), question]
        assert reply.json["store"] is store
        self.ids.append(reply.json["id"])
        if store:
            texts = (question, answer)
            self.stored[reply.json["id"]] = StoredResponse(user, texts, previous)

    async def go_on(self, user: str, id: str, store: bool) -> None:
        await self.create(user, id, store, id)

    async def refer(self, user: str, id: str, _: bool) -> None:
        item = {"type": "item_reference", "id": id.replace("resp_", "msg_")}
        reply = await self.app.create([item, question], HEADERS[user], store=False)
        assert reply.status == (200 if self.is_visible(id, user) else 404)
        if reply.status == 200:
            assert self.app.texts == [self.stored[id].texts[1], "Hello?"]

    async def read(self, user: str, id: str, _: bool) -> None:
        reply = await self.app.send("GET", id, headers=HEADERS[user])
        items = await self.app.send("GET", f"{id}/input_items", headers=HEADERS[user])
        expected = 200 if self.is_visible(id, user) else 404
        assert (reply.status, items.status) == (expected, expected)
        if expected == 200:
            (output,), (item,) = reply.json["output"], items.json["data"]
            texts = (item["content"][0]["text"], output["content"][0]["text"])
            assert (texts, reply.json["id"]) == (self.stored[id].texts, id)
            assert reply.json["previous_response_id"] == self.stored[id].previous

    async def delete(self, user: str, id: str, _: bool) -> None:
        reply = await self.app.send("DELETE", id, headers=HEADERS[user])
        assert reply.status == (200 if self.is_visible(id, user) else 404)
        if reply.status == 200:
            del self.stored[id]


HEADERS = {"anna": ANNA, "ben": BEN}
STEPS: list[Callable[..., Any]] = [Users.create, *[Users.go_on] * 5, Users.refer]
STEPS += [Users.read, Users.read, Users.delete]


def test_each_user_sees_the_own_responses_alone_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lengths: Counter[int] = Counter()

    @FUZZ
    @given(st.randoms(use_true_random=True))  # hypothesis' own likes the first choice best
    def each(chance: Random) -> None:
        async def work(app: FakeApp) -> None:
            users = Users(app)
            for _ in range(30):
                step, user = chance.choice(STEPS), chance.choice(["anna", "anna", "ben"])
                id = users.ids[-1 - min(chance.choice([0, 0, 0, 1, 2, 9]), len(users.ids) - 1)]
                await step(users, user, id, chance.random() < 0.9)
            lengths.update(len(users.history(id)) for id in users.stored)

        folder: Path = tmp_path_factory.mktemp("memory")
        run(sqlite_store(folder), work, SIGN_IN)

    each()

    assert sum(count for length, count in lengths.items() if length >= 6) > EXAMPLES / 2
