"""A question over the limit of answers at once is refused; an answer frees its slot at its end."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from shared.app import ROUTES, handle_call
from shared.domain import errors
from shared.domain.events import Delta, Source
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.files.folder import FolderFiles
from shared.http.auth import AccessPolicy
from shared.http.call import LOOKUPS_AT_ONCE, AnswerSlots, BodyMemory, Call, Limits
from shared.protocols.content import ContentConfig
from shared.protocols.exchange import App
from shared.retrieval.base import WHOLE_FILE, FilePart, SearchResult
from tests.support.calls import ANNA, BEN, JSON, QUESTION, call, local_service, read
from tests.support.fakes import ANSWER, PLUS, FakeModel, FakeRetriever, ScriptStep, make_rag

SENTENCE = errors.Overloaded.default
OPENSEARCH = {"type": "rejected_execution_exception", "reason": SENTENCE}
OPENSEARCH_ERROR = {"error": {"root_cause": [OPENSEARCH], **OPENSEARCH}, "status": 503}
OPENAI = {"message": SENTENCE, "type": "server_error", "param": None, "code": None}
RESPONSES = {"error": {**OPENAI, "param": "", "code": "server_error"}}
FORMS: dict[str, Any] = {
    "/chat": {"error": SENTENCE},
    "/chat/stream": {"error": SENTENCE},
    "/ask": {"error": SENTENCE},
    "/v1/chat/completions": {"error": OPENAI},
    "/openai/v1/chat/completions": {"error": OPENAI},
    "/openai/deployments/{deployment}/chat/completions": {"error": OPENAI},
    "/v1/responses": RESPONSES,
    "/openai/v1/responses": RESPONSES,
    "/openai/responses": RESPONSES,
    "/aog/v0.2/services/{service}": {"business_code": 503, "message": SENTENCE},
    "/_search": OPENSEARCH_ERROR,
    "/{index}/_search": OPENSEARCH_ERROR,
}
CHATS = sorted(ROUTES.keys() & FORMS.keys())  # a protocol can be deleted
# MCP's calls are refused as results: only how their answers end is the same.
ANSWERS = sorted(ROUTES.keys() & {*FORMS, "/mcp"})
SEARCH = {"ext": {"generative_qa_parameters": {"llm_question": "What is in Plus?"}}}
ASK = {"name": "ask", "arguments": {"question": "What?"}, "_meta": {"progressToken": 1}}
INPUT = {"input": "What is in Plus?"}
BODIES: dict[str, Any] = {
    **dict.fromkeys(("/v1/responses", "/openai/v1/responses", "/openai/responses"), INPUT),
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ASK},
    "/_search": SEARCH,
    "/{index}/_search": SEARCH,
}
HEADERS = JSON | {"accept": "application/json, text/event-stream"}

T = TypeVar("T")
Script = Callable[[], Sequence[ScriptStep]]


def hang() -> Sequence[ScriptStep]:
    return [asyncio.Event()]


def fail() -> Sequence[ScriptStep]:
    return [Delta("Dental"), RuntimeError("inside")]


def refuse() -> Sequence[ScriptStep]:
    return [errors.Unavailable()]


def succeed() -> Sequence[ScriptStep]:
    return ANSWER


def make_service(
    script: Script = hang, seconds: float = 120
) -> tuple[App, FakeModel, FakeRetriever]:
    """A service that answers one question at a time, and its fakes."""
    model, search = FakeModel(script()), FakeRetriever()
    parts: dict[str, Any] = {
        "limits": Limits(request_seconds=seconds),
        "answer_slots": AnswerSlots(1),
    }
    return local_service(make_rag(model, search), **parts), model, search


def question(route: str, **more: Any) -> Call:
    """A question in the form of the route's protocol."""
    path = "chat" if "{service}" in route else "documents" if "{index}" in route else ""
    return call(route, BODIES.get(route, QUESTION), HEADERS, path=path, **more)


async def never() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


@pytest.mark.parametrize("route", CHATS)
def test_question_over_the_limit_is_refused_before_anything_is_read_or_called(route: str) -> None:
    service, model, search = make_service()

    async def go() -> Any:
        first = await handle_call(service, call("/chat/stream"))
        refused = await read(await handle_call(service, replace(question(route), body=never())))
        assert first.rest is not None
        await first.rest.aclose()
        return refused

    got = asyncio.run(go())

    assert (got.status, got.headers["Retry-After"], got.json) == (503, "5", FORMS[route])
    assert (len(model.calls), len(search.calls)) == (1, 1)


def test_full_instance_still_answers_health_and_logs_the_refusal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "chat")
    service, *_ = make_service()

    async def go() -> tuple[int, int]:
        first = await handle_call(service, call("/chat/stream"))
        refused = await handle_call(service, call("/chat"))
        health = await handle_call(service, call("/health", method="GET"))
        assert first.rest is not None
        await first.rest.aclose()
        return refused.status, health.status

    assert asyncio.run(go()) == (503, 200)
    assert caplog.records[0].levelname == "WARNING"
    assert caplog.messages[0].endswith("outcome=Overloaded")


Ending = Callable[[App], Coroutine[Any, Any, None]]


def reads(route: str, **more: Any) -> Ending:
    """Reads the answer to a question to its end."""

    async def read_all(service: App) -> None:
        await read(await handle_call(service, question(route, **more)))

    return read_all


async def sends_bad_json(service: App) -> None:
    await handle_call(service, call("/chat", b"{"))


async def leaves_while_it_asks(service: App) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"{"
        raise errors.ClientDisconnected

    await handle_call(service, replace(call("/chat"), body=broken()))


async def closes_its_stream(service: App) -> None:
    reply = await handle_call(service, call("/chat/stream"))
    assert reply.rest is not None
    await reply.rest.aclose()


async def drops_its_stream(service: App) -> None:
    await handle_call(service, call("/chat/stream"))
    gc.collect()
    await asyncio.sleep(0.01)  # the event loop closes the stream


def cancels(route: str) -> Ending:
    """Is cancelled while the answer is awaited."""

    async def cancel(service: App) -> None:
        asking = asyncio.create_task(reads(route)(service))
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.wait({asking})

    return cancel


async def gone() -> bool:
    return True


ENDINGS = [
    *(pytest.param(succeed, reads(route), id=f"answered: {route}") for route in ANSWERS),
    *(pytest.param(fail, reads(route), id=f"model fails: {route}") for route in ANSWERS),
    *(pytest.param(refuse, reads(route), id=f"model refuses: {route}") for route in ANSWERS),
    *(pytest.param(hang, reads(route), id=f"deadline: {route}") for route in ANSWERS),
    *(pytest.param(hang, reads(route, gone=gone), id=f"client gone: {route}") for route in ANSWERS),
    *(pytest.param(hang, cancels(route), id=f"cancelled: {route}") for route in ANSWERS),
    pytest.param(hang, sends_bad_json, id="bad JSON"),
    pytest.param(hang, leaves_while_it_asks, id="client gone in its request"),
    pytest.param(hang, closes_its_stream, id="stream closed"),
    pytest.param(hang, drops_its_stream, id="stream never read"),
]


@pytest.mark.parametrize(("script", "ending"), ENDINGS)
def test_answer_frees_its_slot_once_however_it_ends(script: Script, ending: Ending) -> None:
    service, *_ = make_service(script, seconds=0.8)

    asyncio.run(ending(service))
    service.answer_slots.acquire(None)

    with pytest.raises(errors.Overloaded):
        service.answer_slots.acquire(None)


async def trickle(data: bytes) -> AsyncIterator[bytes]:
    """A body of which one byte arrives every 10 ms."""
    for byte in data:
        await asyncio.sleep(0.01)
        yield bytes([byte])


@pytest.mark.parametrize("body", [never, lambda: trickle(b" " * 1000)])
@pytest.mark.parametrize("route", sorted(ROUTES.keys() & {*FORMS, "/feedback", "/mcp"}))
def test_body_that_does_not_arrive_takes_no_slot_and_is_refused_after_its_time(
    route: str, body: Callable[[], AsyncIterator[bytes]]
) -> None:
    service, *_ = make_service(succeed)
    service = replace(service, limits=Limits(body_seconds=0.2))

    async def go() -> tuple[int, list[int]]:
        waiting = [
            asyncio.create_task(handle_call(service, replace(question(route), body=body())))
            for _ in range(5)
        ]
        await asyncio.sleep(0.05)
        answered = await read(await handle_call(service, call("/chat")))
        return answered.status, [(await each).status for each in waiting]

    assert asyncio.run(go()) == (200, [408] * 5)


def test_one_signed_in_user_takes_at_most_half_of_the_slots() -> None:
    service, *_ = make_service()
    service = replace(service, access=AccessPolicy(sign_in=True), answer_slots=AnswerSlots(4))

    async def go() -> list[Any]:
        callers = [ANNA, ANNA, ANNA, BEN, {}, {}]
        replies = [
            await handle_call(service, call("/chat/stream", headers=JSON | user))
            for user in callers
        ]
        for reply in replies:
            if reply.rest is not None:
                await reply.rest.aclose()
        return [await read(reply) for reply in (replies[2], replies[5])] + [
            reply.status for reply in replies
        ]

    second_of_anna, last, *statuses = asyncio.run(go())

    assert statuses == [200, 200, 429, 200, 200, 503]
    assert second_of_anna.json["error"].startswith("2 of your questions are being answered")
    assert second_of_anna.headers["Retry-After"] == last.headers["Retry-After"] == "5"


class SlowRetriever(FakeRetriever):
    """Reads of the index that wait for `go`, and how many there were at once."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.reading, self.most = asyncio.Event(), 0, 0

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        if query != "lookup":
            return await super().search(user, query, overrides)
        return await self.wait(super().search(user, query, overrides))

    async def list_passages(
        self, user: User, sourcefile: str, overrides: Overrides, part: FilePart = WHOLE_FILE
    ) -> tuple[Source, ...]:
        return await self.wait(super().list_passages(user, sourcefile, overrides, part))

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        return await self.wait(super().readable(user, sourcefile, overrides))

    async def wait(self, reading: Awaitable[T]) -> T:
        self.reading += 1
        self.most = max(self.most, self.reading)
        await self.go.wait()
        self.reading -= 1
        return await reading


def tool(name: str, **arguments: str) -> Call:
    params = {"name": name, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return call("/mcp", message, HEADERS)


LOOKUPS: dict[str, Callable[[], Call]] = {
    "search": lambda: tool("search", query="lookup"),
    "fetch": lambda: tool("fetch", id=PLUS.sourcefile),
    "content": lambda: call("/content/{path}", method="GET", path=PLUS.sourcefile),
    "_search": lambda: call("/_search", {"query": {"match": {"text": "lookup"}}}),
}


@pytest.mark.parametrize("name", [name for name in LOOKUPS if LOOKUPS[name]().route in ROUTES])
def test_lookups_wait_for_each_other_and_no_answer_waits_for_them(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / PLUS.sourcefile).parent.mkdir()
    (tmp_path / PLUS.sourcefile).write_text("Health Plus")
    retriever = SlowRetriever()
    files = ContentConfig(FolderFiles(tmp_path))
    service = local_service(make_rag(FakeModel(ANSWER), retriever), configs=(files,))

    async def go() -> tuple[int, int, list[int]]:
        waiting = [asyncio.create_task(handle_call(service, LOOKUPS[name]())) for _ in range(30)]
        await asyncio.sleep(0.05)
        answered = (await handle_call(service, call("/chat"))).status
        reading = retriever.reading
        retriever.go.set()
        return answered, reading, [(await read(await each)).status for each in waiting]

    answered, reading, statuses = asyncio.run(go())

    assert (answered, reading, retriever.most) == (200, LOOKUPS_AT_ONCE, LOOKUPS_AT_ONCE)
    assert statuses == [200] * 30


def test_large_bodies_share_one_limit_and_small_ones_are_read_beside_them() -> None:
    service, *_ = make_service(succeed)
    service = replace(service, limits=Limits(body_memory=BodyMemory(100_000, free=1000)))
    stop = asyncio.Event()

    async def stalling() -> AsyncIterator[bytes]:
        yield b'{"x": "' + b"x" * 60_000
        await stop.wait()
        yield b'"}'

    async def post(body: AsyncIterator[bytes]) -> int:
        return (await read(await handle_call(service, replace(call("/chat"), body=body)))).status

    async def go() -> list[int]:
        first = asyncio.create_task(post(stalling()))
        await asyncio.sleep(0.05)
        second, small = await post(stalling()), (await handle_call(service, call("/chat"))).status
        stop.set()
        return [second, small, await first, await post(stalling())]

    assert asyncio.run(go()) == [503, 200, 400, 400]
