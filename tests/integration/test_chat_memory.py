"""Chats that continue a stored conversation, in every version of the chat protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.domain import errors
from shared.domain.events import Context, Delta, Done
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.http.auth import AccessPolicy
from shared.memory.base import Conversation, Interaction, Memory, PageRequest, Turn
from shared.memory.chat_history import EMPTY_ANSWER, NOT_CREATED, NOT_STORED, ChatHistory
from shared.protocols.ai_chat.history import HistoryConfig
from shared.rag import flow
from shared.settings import read_settings
from tests.support.calls import (
    ANNA,
    BEN,
    JSON,
    QUESTION,
    BufferedReply,
    ask,
    call,
    local_service,
    read,
)
from tests.support.fakes import (
    ANSWER,
    PLUS,
    STANDARD,
    FailingConversations,
    FailingInteractions,
    FakeModel,
    ScriptStep,
    make_rag,
)
from tests.support.servers import LAPTOP, SAMPLES
from tests.support.stores import FakeClock, sqlite_memory

EVERY_CHAT = (HistoryConfig(stores_every_chat=True),)
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="
TEXT = "Dental care [plans/plus.pdf#page=2]."
WAYS = [
    pytest.param("/chat", "sessionState", {}, id="001"),
    pytest.param("/chat/stream", "sessionState", {}, id="001 streaming"),
    pytest.param("/chat", "session_state", {}, id="000"),
    pytest.param("/chat/stream", "session_state", {}, id="000 streaming"),
    pytest.param("/chat", "session_state", {"stream": False}, id="004"),
    pytest.param("/chat", "session_state", {"stream": True}, id="004 streaming"),
    pytest.param("/chat", "session_state", {"input": True}, id="input"),
    pytest.param("/chat/stream", "session_state", {"input": True}, id="input streaming"),
    pytest.param("/ask", "session_state", {}, id="ask"),
    pytest.param("/ask", "session_state", {"stream": True}, id="ask streaming"),
]
everywhere = pytest.mark.parametrize(("route", "key", "more"), WAYS)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with sqlite_memory(tmp_path) as memory:
        yield memory


def chat_call(route: str, key: str, more: Any, state: Any, *texts: str, headers: Any = JSON) -> Any:
    roles = ("user", "assistant")
    messages = [
        {"role": roles[place % 2], "content": text}
        for place, text in enumerate(texts or ["Hello?"])
    ]
    name = "input" if "input" in more else "messages"
    return call(route, {key: state, **more, name: messages}, headers)


def answers(got: BufferedReply) -> list[Any]:
    """The lines of a stream, or the whole answer as the only one; each in the inner form."""
    lines = got.lines if got.media_type != "application/json" else [got.json]
    return [line["choices"][0] if "choices" in line else line for line in lines]


def text_of(line: Any) -> str:
    value = line.get("output_text") or line.get("delta") or line.get("message") or ""
    return str(value if isinstance(value, str) else value.get("content", ""))


def state_of(got: BufferedReply, key: str) -> Any:
    assert got.status == 200, got.data
    (state,) = [line[key] for line in answers(got) if key in line]
    return state


def warnings(got: BufferedReply) -> Any:
    return answers(got)[-1]["context"].get("warnings")


def contents(memory: Memory, owner: str = "local") -> list[tuple[Conversation, list[Interaction]]]:
    """All that a memory holds of an owner, oldest first."""

    async def go() -> list[tuple[Conversation, list[Interaction]]]:
        pairs = []
        for each in await memory.conversations.list(owner, PageRequest(0, 100)):
            interactions = await memory.interactions.list(
                owner, each.id, PageRequest(0, 100), newest_first=False
            )
            pairs.append((each, list(interactions)))
        return pairs[::-1]

    return asyncio.run(go())


def begin(memory: Memory, turns: int = 0, owner: str = "local") -> str:
    async def go() -> str:
        conversation = (await memory.conversations.create(owner, "")).id
        for number in range(turns):
            turn = Turn(f"question {number}", response=f"answer {number}")
            await memory.interactions.add(owner, conversation, turn)
        return conversation

    return asyncio.run(go())


@everywhere
def test_null_creates_a_conversation_named_by_the_question(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    question = "What is in Plus? " + "x" * 200
    state = {"conversation_id": None, "mine": [1, {"x": None}]}
    got = ask(
        chat_call(route, key, more, state, question), local_service(make_rag(), memory=memory)
    )
    ((conversation, interactions),) = contents(memory)

    assert state_of(got, key) == state | {"conversation_id": conversation.id}
    assert conversation.name == question[:100]
    assert warnings(got) is None
    (only,) = interactions
    assert only.turn.input == question
    assert only.turn.response == TEXT
    assert only.turn.origin == "chat"
    assert only.turn.prompt_template == "Answer."
    assert json.loads(only.turn.additional_info) == [PLUS.prompt_line(), STANDARD.prompt_line()]


@everywhere
def test_instructions_are_not_stored_where_thoughts_are_off(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    service = local_service(replace(make_rag(), thoughts=False), memory=memory)
    state_of(ask(chat_call(route, key, more, {"conversation_id": None}), service), key)
    ((_, (stored,)),) = contents(memory)

    assert stored.turn.response == TEXT
    assert stored.turn.prompt_template == ""


@everywhere
def test_an_id_continues_a_conversation(memory: Memory, route: str, key: str, more: Any) -> None:
    conversation, model = begin(memory, turns=12), FakeModel()
    state = {"conversation_id": conversation}
    got = ask(
        chat_call(route, key, more, state, "And then?"),
        local_service(make_rag(model), memory=memory),
    )
    rewrite, answer = model.calls

    assert state_of(got, key) == state
    history = [m.content for m in answer.messages[1:-1]]
    newest = [text for turn in range(2, 12) for text in (f"question {turn}", f"answer {turn}")]
    assert history == newest
    assert rewrite.task == "rewrite"
    assert [m.content for m in rewrite.messages[1:-1]] == newest
    ((_, interactions),) = contents(memory)
    assert [it.turn.input for it in interactions][-2:] == ["question 11", "And then?"]


def test_an_image_of_a_question_is_counted_not_stored(memory: Memory) -> None:
    image = {"type": "input_image", "image_url": PIXEL}
    content = [{"type": "input_text", "text": "What is this?"}, image]
    body = {
        "session_state": {"conversation_id": None},
        "input": [{"role": "user", "content": content}],
    }
    got = ask(call("/chat", body), local_service(make_rag(), memory=memory))
    assert got.status == 200, got.data
    ((_, (stored,)),) = contents(memory)

    assert stored.turn.input == "What is this?"
    info = json.loads(stored.turn.additional_info)
    assert info["images"] == 1
    assert info["sources"][0] == PLUS.prompt_line()


@pytest.mark.parametrize(
    ("info", "is_left_out"),
    [
        ("replaced", True),
        ('{"replaced": true, "sources": []}', True),
        ('{"replaced": false, "sources": []}', False),
        ('{"sources": ["a.md: replaced"]}', False),
        ('{"replaced": tr', False),
        ("{" * 50_000, False),
    ],
)
def test_a_replaced_turn_is_no_history(memory: Memory, info: str, is_left_out: bool) -> None:
    conversation, model = begin(memory, turns=1), FakeModel()
    turn = Turn("edited", response="answer of it", additional_info=info)
    asyncio.run(memory.interactions.add("local", conversation, turn))
    state = {"conversation_id": conversation}
    ask(
        chat_call("/chat", "sessionState", {}, state, "And then?"),
        local_service(make_rag(model), memory=memory),
    )

    history = [m.content for m in model.calls[-1].messages[1:-1]]
    edited = [] if is_left_out else ["edited", "answer of it"]
    assert history == ["question 0", "answer 0", *edited]


@pytest.mark.parametrize(("route", "key", "more"), WAYS[:-2])
def test_a_request_with_a_history_of_its_own_keeps_it(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    conversation, model = begin(memory, turns=2), FakeModel()
    texts = ("Mine?", "Mine.", "And then?")
    state = {"conversation_id": conversation}
    got = ask(
        chat_call(route, key, more, state, *texts), local_service(make_rag(model), memory=memory)
    )

    assert got.status == 200
    assert [m.content for m in model.calls[-1].messages[1:-1]] == ["Mine?", "Mine."]
    ((_, stored),) = contents(memory)
    assert [it.turn.input for it in stored] == ["question 0", "question 1", "And then?"]


def test_a_greeting_before_the_question_is_a_history_of_its_own(memory: Memory) -> None:
    conversation, model = begin(memory, turns=1), FakeModel()
    messages = [
        {"role": "assistant", "content": "Welcome!"},
        {"role": "user", "content": "And then?"},
    ]
    body = {"messages": messages, "sessionState": {"conversation_id": conversation}}
    reply = ask(call("/chat", body), local_service(make_rag(model), memory=memory))

    assert reply.status == 200
    assert [m.content for m in model.calls[-1].messages[1:-1]] == ["Welcome!"]


@everywhere
@pytest.mark.parametrize("whose", ["missing", "foreign", "odd"])
def test_a_conversation_of_another_owner_is_not_found(
    memory: Memory, route: str, key: str, more: Any, whose: str
) -> None:
    ids = {"missing": "0" * 24, "foreign": begin(memory, 1, "ben"), "odd": "../x?'"}
    service = local_service(
        make_rag(model := FakeModel()), AccessPolicy(True, single_user=False), memory=memory
    )
    state = {"conversation_id": ids[whose]}
    for texts in (("Hello?",), ("Mine?", "Mine.", "And then?")):
        got = ask(chat_call(route, key, more, state, *texts, headers=ANNA), service)

        assert got.status == 404
        assert got.json == {"error": f"Conversation [{ids[whose]}] not found"}
    assert model.calls == []
    assert contents(memory, "anna") == []


@everywhere
def test_other_session_states_are_echoed_and_nothing_is_stored(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    service = local_service(make_rag(), memory=memory)
    for state in (None, "conversation_id", 7, ["conversation_id"], {"id": "x"}, {"deep": {"x": 1}}):
        got = ask(chat_call(route, key, more, state), service)

        assert state_of(got, key) == state
    assert contents(memory) == []


@everywhere
def test_without_memory_every_state_is_echoed(route: str, key: str, more: Any) -> None:
    for state in ({"conversation_id": None}, {"conversation_id": "x"}, {"conversation_id": 7}):
        got = ask(chat_call(route, key, more, state), local_service(make_rag()))

        assert state_of(got, key) == state


@everywhere
def test_an_id_of_another_type_is_a_bad_request(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    got = ask(
        chat_call(route, key, more, {"conversation_id": 7}),
        local_service(make_rag(), memory=memory),
    )

    assert (got.status, got.json) == (400, {"error": "conversation_id: must be a string or null"})


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("where", ["no memory", "a new conversation", "an old one"])
def test_an_answer_has_one_context_then_its_deltas_then_one_done(
    memory: Memory, where: str, streams: bool
) -> None:
    conversation = begin(memory) if where == "an old one" else None
    request = ChatRequest((Message("user", "Hello?"),))

    async def kinds() -> list[type]:
        events = flow.answer(make_rag(), request)
        if where != "no memory":
            events = ChatHistory(memory, "local", conversation, streams).store_answer(
                request, events
            )
        return [type(event) async for event in events]

    assert asyncio.run(kinds()) == [Context, Delta, Delta, Done]


def test_storing_requires_sign_in_if_it_is_enabled(memory: Memory) -> None:
    service = local_service(make_rag(), AccessPolicy(True, single_user=False), memory=memory)
    state = {"conversation_id": None}

    assert ask(chat_call("/chat", "sessionState", {}, state), service).status == 401
    assert ask(chat_call("/chat", "sessionState", {}, {}), service).status == 200
    assert ask(chat_call("/chat", "sessionState", {}, state, headers=ANNA), service).status == 200
    assert len(contents(memory, "anna")) == 1


@pytest.mark.parametrize(("setting", "number"), [("", 0), ("opt-in", 0), ("always", 1)])
def test_setting_decides_whether_a_chat_is_stored_without_a_request_for_it(
    memory: Memory, setting: str, number: int
) -> None:
    settings = read_settings({**LAPTOP, **SAMPLES, "CONVERSATIONS": setting})
    ask(call("/chat"), replace(build(settings), memory=memory))

    assert len(contents(memory)) == number


STORED = [way for way in WAYS if way.values[0] != "/ask"]
stored_routes = pytest.mark.parametrize(("route", "key", "more"), STORED)


@stored_routes
@pytest.mark.parametrize("state", [None, ""])
def test_always_begins_and_continues_a_conversation(
    memory: Memory, route: str, key: str, more: Any, state: Any
) -> None:
    model = FakeModel(query="plus")
    service = local_service(make_rag(model), memory=memory, configs=EVERY_CHAT)
    first = state_of(ask(chat_call(route, key, more, state, "What is in Plus?"), service), key)
    second = state_of(ask(chat_call(route, key, more, first, "And dental?"), service), key)
    ((conversation, interactions),) = contents(memory)

    as_object = {"conversation_id": conversation.id}
    assert first == (as_object if key == "sessionState" else conversation.id)
    assert second == first
    assert [each.turn.input for each in interactions] == ["What is in Plus?", "And dental?"]
    assert [message.content for message in model.calls[-1].messages[1:3]] == [
        "What is in Plus?",
        TEXT,
    ]


@stored_routes
def test_always_stores_no_chat_with_a_history_or_a_state_of_its_own(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    service = local_service(make_rag(), memory=memory, configs=EVERY_CHAT)
    states: list[Any] = [7, False, [], {}, {"id": "x"}]
    texts = ("Hello?", "Yes.", "What is in Plus?")

    assert state_of(ask(chat_call(route, key, more, None, *texts), service), key) is None
    for state in [*states, "mine"] if key == "sessionState" else states:
        assert state_of(ask(chat_call(route, key, more, state), service), key) == state
    assert contents(memory) == []


@pytest.mark.parametrize("body", [{}, {"sessionState": None, "session_state": "x"}])
def test_always_answers_a_missing_state_in_the_current_protocol(
    memory: Memory, body: dict[str, Any]
) -> None:
    service = local_service(make_rag(), memory=memory, configs=EVERY_CHAT)
    got = ask(call("/chat", {**QUESTION, **body}), service)

    assert got.json["sessionState"] == {"conversation_id": contents(memory)[0][0].id}


def test_always_continues_a_chat_that_sends_all_its_messages(memory: Memory) -> None:
    conversation, model = begin(memory, turns=1), FakeModel()
    texts = ("Hello?", "Yes.", "What is in Plus?")
    service = local_service(make_rag(model), memory=memory, configs=EVERY_CHAT)
    got = ask(chat_call("/chat", "session_state", {}, conversation, *texts), service)
    ((_, interactions),) = contents(memory)

    assert state_of(got, "session_state") == conversation
    assert [message.content for message in model.calls[-1].messages[1:3]] == ["Hello?", "Yes."]
    assert [each.turn.input for each in interactions] == ["question 0", "What is in Plus?"]


@stored_routes
def test_always_answers_a_caller_without_an_id_and_stores_nothing(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    for access in (AccessPolicy(True), AccessPolicy()):
        service = local_service(make_rag(), access, memory=memory, configs=EVERY_CHAT)
        for state in (None, "x"):
            got = ask(chat_call(route, key, more, state), service)

            assert state_of(got, key) == state
            assert warnings(got) is None


@stored_routes
def test_always_without_memory_echoes_the_state(route: str, key: str, more: Any) -> None:
    service = local_service(make_rag(), configs=EVERY_CHAT)
    for state in (None, "x"):
        assert state_of(ask(chat_call(route, key, more, state), service), key) == state


def test_always_keeps_conversations_private(memory: Memory) -> None:
    access = AccessPolicy(True)
    service = local_service(make_rag(), access, memory=memory, configs=EVERY_CHAT)
    first = chat_call("/chat", "session_state", {}, None, headers=ANNA)
    conversation = state_of(ask(first, service), "session_state")
    got = ask(chat_call("/chat", "session_state", {}, conversation, headers=BEN), service)

    assert got.status == 404
    assert "not found" in got.json["error"]
    assert len(contents(memory, "anna")) == 1


def test_always_does_not_store_a_question_to_ask(memory: Memory) -> None:
    service = local_service(make_rag(), memory=memory, configs=EVERY_CHAT)

    assert state_of(ask(call("/ask"), service), "session_state") is None
    assert contents(memory) == []


def test_always_answers_with_a_warning_if_the_store_fails(memory: Memory) -> None:
    broken = failing(memory, errors.Unavailable(), "begin")
    service = local_service(make_rag(), memory=broken, configs=EVERY_CHAT)
    got = ask(chat_call("/chat/stream", "session_state", {}, None), service)

    assert state_of(got, "session_state") is None
    assert warnings(got) == [NOT_CREATED]


CUT: list[Sequence[ScriptStep]] = [
    [errors.Unavailable()],
    [Delta("Half"), errors.Unavailable()],
    [Delta("Half"), errors.ContentFiltered()],
    [Delta("Half"), Done("content_filter")],
    [Delta("Half")],
]


@everywhere
@pytest.mark.parametrize("script", CUT, ids=repr)
def test_an_incomplete_answer_is_not_stored(
    memory: Memory, route: str, key: str, more: Any, script: Sequence[ScriptStep]
) -> None:
    conversation = begin(memory)
    service = local_service(make_rag(FakeModel(script)), memory=memory)
    ask(chat_call(route, key, more, {"conversation_id": conversation}), service)
    ask(chat_call(route, key, more, {"conversation_id": None}), service)

    assert all(interactions == [] for _, interactions in contents(memory))


def test_a_failed_answer_without_streaming_creates_no_conversation(memory: Memory) -> None:
    service = local_service(
        make_rag(FakeModel([Delta("Half"), errors.Unavailable()])), memory=memory
    )
    got = ask(chat_call("/chat", "sessionState", {}, {"conversation_id": None}), service)

    assert got.status == 503
    assert contents(memory) == []


@everywhere
def test_an_empty_answer_is_not_stored_and_has_a_warning(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    conversation, service = (
        begin(memory),
        local_service(make_rag(FakeModel([Done()])), memory=memory),
    )
    got = ask(chat_call(route, key, more, {"conversation_id": conversation}), service)

    assert warnings(got) == [EMPTY_ANSWER]
    assert contents(memory)[0][1] == []


def test_a_clients_instructions_do_not_count_as_history(memory: Memory) -> None:
    conversation, model = begin(memory, turns=1), FakeModel()
    body = {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "And then?"},
        ],
        "sessionState": {"conversation_id": conversation},
    }
    service = local_service(make_rag(model, client_prompts=True), memory=memory)

    assert ask(call("/chat", body), service).status == 200
    assert [m.content for m in model.calls[-1].messages[1:-1]] == ["question 0", "answer 0"]


@everywhere
def test_a_rejected_question_creates_no_conversation(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    service = local_service(make_rag(FakeModel([errors.TooManyRequests()])), memory=memory)
    got = ask(chat_call(route, key, more, {"conversation_id": None}), service)

    assert got.status == 429
    assert contents(memory) == []


def test_a_disconnected_client_stores_nothing(memory: Memory) -> None:
    conversation, model = begin(memory), FakeModel([Delta("a"), Delta("b"), Done()])

    async def leave() -> None:
        state = {"conversation_id": conversation}
        service = local_service(make_rag(model), memory=memory)
        reply = await handle_call(service, chat_call("/chat/stream", "sessionState", {}, state))
        assert reply.rest is not None
        await anext(reply.rest)
        await reply.rest.aclose()

    asyncio.run(leave())

    assert model.open_streams == 0
    assert contents(memory)[0][1] == []


def test_the_answer_is_stored_before_its_last_event(memory: Memory) -> None:
    conversation = begin(memory)

    async def look() -> list[bytes]:
        state = {"conversation_id": conversation}
        service = local_service(make_rag(), memory=memory)
        reply = await handle_call(service, chat_call("/chat/stream", "sessionState", {}, state))
        assert reply.rest is not None
        before = [reply.body, await anext(reply.rest), await anext(reply.rest)]
        stored = await memory.interactions.list("local", conversation, PageRequest())
        assert stored == ()
        last = await anext(reply.rest)
        (interaction,) = await memory.interactions.list("local", conversation, PageRequest())
        assert interaction.turn.response == TEXT
        await reply.rest.aclose()
        return [*before, last]

    assert b"finish_reason" in asyncio.run(look())[-1]


def test_follow_up_questions_are_not_stored(memory: Memory) -> None:
    model = FakeModel([Delta("Yes. <<And"), Delta(" why?>>"), Done()])
    more = {"context": {"overrides": {"suggest_followup_questions": True}}}
    state = {"conversation_id": None}
    got = ask(
        chat_call("/chat", "sessionState", more, state),
        local_service(make_rag(model), memory=memory),
    )
    ((_, (interaction,)),) = contents(memory)

    assert got.json["context"]["followup_questions"] == ["And why?"]
    assert interaction.turn.response == "Yes."


def test_lone_surrogates_are_stored_as_question_marks(memory: Memory) -> None:
    model = FakeModel([Delta("a \ud83d"), Done()])
    got = ask(
        chat_call("/chat", "sessionState", {}, {"conversation_id": None}),
        local_service(make_rag(model), memory=memory),
    )
    ((_, (interaction,)),) = contents(memory)

    assert got.status == 200
    assert interaction.turn.response == "a ?"


def failing(memory: Memory, error: Exception, where: str) -> Memory:
    if where == "begin":
        return replace(memory, conversations=FailingConversations(memory.conversations, error))
    return replace(memory, interactions=FailingInteractions(memory.interactions, error))


@everywhere
@pytest.mark.parametrize("error", [errors.Unavailable(), errors.TooManyRequests()], ids=repr)
def test_an_answer_survives_a_failing_store_with_a_warning(
    memory: Memory,
    route: str,
    key: str,
    more: Any,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fails_to_add = local_service(make_rag(), memory=failing(memory, error, "add"))
    fails_to_create = local_service(make_rag(), memory=failing(memory, error, "begin"))
    state = {"conversation_id": None, "mine": 1}
    first = ask(chat_call(route, key, more, state), fails_to_add)
    second = ask(chat_call(route, key, more, state), fails_to_create)

    assert warnings(first) == [NOT_STORED]
    assert warnings(second) == [NOT_CREATED]
    assert state_of(second, key) == state
    ((conversation, interactions),) = contents(memory)
    assert state_of(first, key)["conversation_id"] == conversation.id
    assert interactions == []
    assert "".join(map(text_of, answers(second))) == TEXT
    assert f"request id=call-1 memory: not stored: {type(error).__name__}" in caplog.text
    assert "Hello?" not in caplog.text


@everywhere
def test_a_chat_beyond_the_limit_is_answered_and_not_stored(
    tmp_path: Path, route: str, key: str, more: Any
) -> None:
    with sqlite_memory(tmp_path, max_conversations=1) as memory:
        there, state = begin(memory), {"conversation_id": None}
        got = ask(chat_call(route, key, more, state), local_service(make_rag(), memory=memory))
        ((conversation, interactions),) = contents(memory)
        later = chat_call(route, key, more, {"conversation_id": there})
        second = ask(later, local_service(make_rag(), memory=memory))

    assert warnings(got) == [
        "The limit of 1 stored conversations is reached: delete some to begin another. "
        "The answer was not stored."
    ]
    assert state_of(got, key) == state
    assert (conversation.id, interactions) == (there, [])
    assert warnings(second) is None


@everywhere
def test_an_answer_that_exceeds_the_limit_of_bytes_is_not_lost(
    tmp_path: Path, route: str, key: str, more: Any
) -> None:
    with sqlite_memory(tmp_path, max_bytes=1000) as memory:
        state = {"conversation_id": begin(memory)}
        service = local_service(make_rag(), memory=memory)
        replies = [ask(chat_call(route, key, more, state), service) for _ in range(3)]
        new = ask(chat_call(route, key, more, {"conversation_id": None}), service)
        ((_, interactions),) = contents(memory)

    reason = "The limit of 0.001 MB of stored conversations is reached: delete some to store more."
    not_stored = [f"{reason} The answer was not stored."]
    assert [warnings(each) for each in replies] == [None, not_stored, not_stored]
    assert warnings(new) == not_stored
    assert len(interactions) == 1
    assert all("".join(map(text_of, answers(each))) for each in (*replies, new))


@everywhere
def test_a_store_that_cannot_be_read_is_an_error(
    memory: Memory, route: str, key: str, more: Any
) -> None:
    error = errors.Unavailable(retry_after=7)
    there = FailingInteractions(memory.interactions, error, reading=True)
    service = local_service(
        make_rag(model := FakeModel()), memory=replace(memory, interactions=there)
    )
    got = ask(chat_call(route, key, more, {"conversation_id": begin(memory)}), service)

    assert (got.status, got.headers["Retry-After"]) == (503, "7")
    assert model.calls == []


def test_concurrent_answers_of_one_conversation_are_all_stored(memory: Memory) -> None:
    conversation = begin(memory)

    async def both() -> list[BufferedReply]:
        state = {"conversation_id": conversation}
        service = local_service(make_rag(), memory=memory)
        questions = [f"question {number}" for number in range(8)]
        calls = [chat_call("/chat", "sessionState", {}, state, text) for text in questions]
        replies = await asyncio.gather(*(handle_call(service, each) for each in calls))
        return [await read(reply) for reply in replies]

    assert {got.status for got in asyncio.run(both())} == {200}
    ((_, interactions),) = contents(memory)
    assert sorted(it.turn.input for it in interactions) == [
        f"question {number}" for number in range(8)
    ]


def test_a_long_conversation_is_trimmed(memory: Memory) -> None:
    conversation, model = begin(memory, turns=10), FakeModel(max_prompt_tokens=70)
    state = {"conversation_id": conversation}
    ask(
        chat_call("/chat", "sessionState", {}, state, "Why?"),
        local_service(make_rag(model), memory=memory),
    )
    history = [m.content for m in model.calls[-1].messages[1:-1]]

    assert 0 < len(history) < 20
    assert history[-1] == "answer 9"


def test_an_expired_conversation_is_not_found(tmp_path: Path) -> None:
    clock = FakeClock()
    with sqlite_memory(tmp_path, retention_seconds=60.0, now=clock) as memory:
        service = local_service(make_rag(FakeModel(ANSWER)), memory=memory)
        first = ask(chat_call("/chat", "sessionState", {}, {"conversation_id": None}), service)
        state = state_of(first, "sessionState")
        assert ask(chat_call("/chat", "sessionState", {}, state), service).status == 200
        clock.at += 61

        assert ask(chat_call("/chat", "sessionState", {}, state), service).status == 404
