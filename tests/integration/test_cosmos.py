"""The store in Cosmos DB: lost responses, faults, requests, costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

import azure.core.exceptions
import azure.cosmos.exceptions
import pytest
from azure.core.credentials import AccessToken
from azure.cosmos.aio import ContainerProxy
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain import errors
from shared.memory.base import Memory, PageRequest, TooManyBytes, TooManyConversations, Turn
from shared.memory.cosmos.client import map_errors
from shared.memory.cosmos.items import SELECT_ALL, BatchOperation
from tests.support import azurite
from tests.support.fake_cosmos import (
    RESET,
    STALL,
    FakeCosmos,
    Item,
    cosmos_error,
    cosmos_response,
    open_cosmos_memory,
    run_cosmos,
)
from tests.support.upstream import Exchange, Step, http_chunk, response_head

START = 1_700_000_000.0
JSON = {"Content-Type": "application/json"}
GARBAGE: list[Step] = [response_head(200, JSON), http_chunk(b"<html>"), b"0\r\n\r\n"]
CUT: list[Step] = [response_head(200, JSON), http_chunk(b'{"id": '), Exchange.reset]
SHORT, LONG = ({"x-ms-retry-after-ms": ms} for ms in ("1", "60000"))
MANY = 250  # ten batches, and more than two pages of a query
T = TypeVar("T")


@dataclass
class ManualClock:
    """A clock that a test sets."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def fake() -> Iterator[FakeCosmos]:
    with run_cosmos(now=ManualClock()) as running:
        yield running


def run(fake: FakeCosmos, work: Callable[[Memory], Awaitable[T]], **how: Any) -> T:
    """Return the result of work with a store in the account."""

    async def go() -> T:
        async with open_cosmos_memory(fake, **how) as memory:
            return await work(memory)

    return asyncio.run(go())


C, ONE = "c" * 24, "1" * 24
REQUEST = "request-1"  # of the interaction ONE


def conversation(id: str = C, **more: Any) -> Item:
    """Return the stored item of a conversation."""
    own = {"id": id, "owner": "user:anna", "conversation": "", "sort": id}
    return {**own, "created": "2023-11-14T22:13:20.000000Z", "name": "before", **more}


def interaction(id: str = ONE, **more: Any) -> Item:
    """Return the stored item of an interaction."""
    own = {"id": id, "owner": "user:anna", "conversation": C, "sort": id}
    turn = {"input": "said", "prompt_template": "", "response": "", "origin": ""}
    created = {"created": "2023-11-14T22:13:20.000000Z", "additional_info": "old"}
    request = REQUEST if id == ONE else f"{REQUEST}-{id}"
    return {**own, **turn, **created, "request": request, **more}


def fill_container(fake: FakeCosmos, interactions: int = 1) -> FakeCosmos:
    """Store a conversation with some interactions, another with one, and a pipeline."""
    fake.fill(conversation())
    for number in range(interactions):
        fake.fill(interaction(f"{number:024d}" if number else ONE))
    fake.fill(conversation("d" * 24, name="other"))
    fake.fill(interaction("2" * 24, conversation="d" * 24))
    own = {"id": sha256(b"p").hexdigest(), "owner": "app:pipelines", "conversation": "pipeline"}
    fake.fill({**own, "sort": "p", "definition": {"a": 1}})
    return fake


OTHERS = ["other", "said old in d"]
BEFORE = sorted([*OTHERS, "before", "said old in c", "p {'a': 1}"])


def contents(fake: FakeCosmos) -> list[str]:
    """Describe each item in the container."""
    texts = []
    for item in fake.items:
        if item["conversation"] == "pipeline":
            texts.append(f"{item['sort']} {item['definition']}")
        elif item["conversation"] == "":
            texts.append(str(item["name"]))
        elif item["conversation"] == "deleted":
            texts.append("a mark")
        else:
            parent = item["conversation"][:1]
            feedback = f": {item['feedback']}" if item.get("feedback") else ""
            texts.append(f"{item['input']} {item['additional_info']} in {parent}{feedback}")
    return sorted(texts)


Call = Callable[[Memory], Awaitable[Any]]
# The call, its number of requests, the items that it removes, and those that it adds.
WRITES: dict[str, tuple[Call, int, list[str], list[str]]] = {
    "create": (lambda memory: memory.conversations.create("anna", "new"), 1, [], ["new"]),
    "add": (
        lambda memory: memory.interactions.add("anna", C, Turn("more", additional_info="new")),
        2,
        [],
        ["more new in c"],
    ),
    "rename": (
        lambda memory: memory.conversations.rename("anna", C, "new"),
        2,
        ["before"],
        ["new"],
    ),
    "annotate": (
        lambda memory: memory.interactions.annotate("anna", ONE, "new"),
        2,
        ["said old in c"],
        ["said new in c"],
    ),
    "rate": (
        lambda memory: memory.interactions.rate("anna", ONE, "bad"),
        2,
        ["said old in c"],
        ["said old in c: bad"],
    ),
    "delete": (
        lambda memory: memory.conversations.delete("anna", C),
        5,
        ["before", "said old in c"],
        [],
    ),
    "put": (lambda memory: memory.pipelines.put("q", {}), 1, [], ["q {}"]),
    "put again": (
        lambda memory: memory.pipelines.put("p", {"b": 2}),
        1,
        ["p {'a': 1}"],
        ["p {'b': 2}"],
    ),
    "remove": (lambda memory: memory.pipelines.delete("p"), 2, ["p {'a': 1}"], []),
}
CALLS = [(name, at) for name, (_, calls, _, _) in WRITES.items() for at in range(calls)]


def contents_after(name: str) -> list[str]:
    _, _, gone, new = WRITES[name]
    return sorted([*(each for each in BEFORE if each not in gone), *new])


@pytest.mark.parametrize("name", WRITES)
def test_a_write_sends_the_expected_number_of_requests(fake: FakeCosmos, name: str) -> None:
    fill_container(fake)
    run(fake, WRITES[name][0])

    assert contents(fake) == contents_after(name)
    assert len(fake.operations) == WRITES[name][1]


TRANSIENT_FAULTS = {
    "lost before": (RESET, False),
    "lost after": (RESET, True),
    "cut": (CUT, True),
    "garbage": (GARBAGE, True),
    "retry with": (cosmos_error(449), False),
    "unavailable": (cosmos_error(503), False),
    "timeout of the service": (cosmos_error(408), True),
    "limit, short wait": (cosmos_error(429, SHORT), False),
}


@pytest.mark.parametrize("fault", TRANSIENT_FAULTS)
@pytest.mark.parametrize(("name", "at"), CALLS)
def test_a_write_is_retried_after_a_transient_fault_and_applied_once(
    fake: FakeCosmos, name: str, at: int, fault: str
) -> None:
    fill_container(fake)
    steps, applied = TRANSIENT_FAULTS[fault]
    fake.fail(steps, after=at, applied=applied)
    got = run(fake, WRITES[name][0])

    assert contents(fake) == contents_after(name)
    assert len(fake.operations) > WRITES[name][1]
    if name == "remove":
        assert got is True
    if name in ("create", "add"):
        assert got.id in [item["id"] for item in fake.items]


def test_a_retry_waits_as_long_as_the_service_says(fake: FakeCosmos) -> None:
    fill_container(fake)
    fake.fail(cosmos_error(429, {"x-ms-retry-after-ms": "300"}))
    start = time.monotonic()
    run(fake, WRITES["rename"][0])

    assert time.monotonic() - start >= 0.3


LASTING_FAULTS: dict[str, tuple[list[Step], bool, type[errors.ChatError]]] = {
    "lost before": (RESET, False, errors.Unavailable),
    "lost after": (RESET, True, errors.Unavailable),
    "garbage": (GARBAGE, True, errors.Unavailable),
    "of another shape": (cosmos_response(7), True, errors.Unavailable),
    "gone": (cosmos_error(410), False, errors.Unavailable),
    "retry with": (cosmos_error(449), False, errors.Unavailable),
    "limit, long wait": (cosmos_error(429, LONG), False, errors.TooManyRequests),
    "forbidden": (cosmos_error(403), False, errors.Misconfigured),
    "stall": (STALL, False, errors.DeadlineExceeded),
    "stall after": (STALL, True, errors.DeadlineExceeded),
}


@pytest.mark.parametrize("fault", LASTING_FAULTS)
@pytest.mark.parametrize(("name", "at"), [call for call in CALLS if call[0] != "delete"])
def test_a_failed_write_is_atomic(fake: FakeCosmos, name: str, at: int, fault: str) -> None:
    fill_container(fake)
    steps, applied, kind = LASTING_FAULTS[fault]
    fake.fail(steps, after=at, times=99, applied=applied)
    seconds = 0.3 if "stall" in fault else 10
    with pytest.raises(kind) as caught:
        run(fake, WRITES[name][0], seconds=seconds)

    assert type(caught.value) is kind
    writes = applied and at == WRITES[name][1] - 1
    assert contents(fake) == (contents_after(name) if writes else BEFORE)


async def check_nothing_is_visible(memory: Memory) -> None:
    """Check that the conversation C and its interactions cannot be read or changed."""
    chats, talk = memory.conversations, memory.interactions
    looks: list[Callable[[], Awaitable[Any]]] = [
        lambda: chats.get("anna", C),
        lambda: chats.rename("anna", C, "new"),
        lambda: talk.add("anna", C, Turn("more")),
        lambda: talk.get("anna", ONE),
        lambda: talk.find("anna", REQUEST),
        lambda: talk.annotate("anna", ONE, "new"),
        lambda: talk.rate("anna", ONE, "bad"),
        lambda: talk.delete("anna", ONE),
        lambda: talk.list("anna", C, PageRequest()),
    ]
    for look in looks:
        with pytest.raises(errors.NotFound):
            await look()
    listed = [each.name for each in await chats.list("anna", PageRequest())]
    assert listed == ["other"]


async def check_all_is_visible(memory: Memory) -> None:
    """Check that the conversation C can be read with all interactions."""
    page = PageRequest(0, 2 * MANY)
    assert (await memory.conversations.get("anna", C)).name == "before"
    assert len(await memory.interactions.list("anna", C, page)) == MANY


INTERRUPTIONS = {
    "lost before": (RESET, False),
    "lost after": (RESET, True),
    "stall": (STALL, False),
}
DELETION_REQUESTS = 16  # a read, the marker, three pages of ids, ten batches, the end of the marker


@pytest.mark.parametrize("broken", INTERRUPTIONS)
@pytest.mark.parametrize("at", range(DELETION_REQUESTS))
def test_an_interrupted_deletion_is_atomic_for_readers_and_can_be_repeated(
    fake: FakeCosmos, at: int, broken: str
) -> None:
    fill_container(fake, MANY)
    steps, applied = INTERRUPTIONS[broken]
    fake.fail(steps, after=at, times=99, applied=applied)
    seconds = 0.3 if broken == "stall" else 10
    with pytest.raises((errors.Unavailable, errors.DeadlineExceeded)):
        run(fake, WRITES["delete"][0], seconds=seconds)
    fake.faults.clear()
    deleted = "before" not in contents(fake)

    assert deleted is (at > 1 or (applied and at == 1))
    run(fake, check_nothing_is_visible if deleted else check_all_is_visible)
    if contents(fake) != contents_after("delete"):
        run(fake, WRITES["delete"][0])
    assert contents(fake) == contents_after("delete")
    with pytest.raises(errors.NotFound):
        run(fake, WRITES["delete"][0])


def test_a_deletion_sends_the_expected_number_of_requests(fake: FakeCosmos) -> None:
    fill_container(fake, MANY)
    run(fake, WRITES["delete"][0])

    assert len(fake.operations) == DELETION_REQUESTS


def test_what_an_unfinished_deletion_left_is_not_found(fake: FakeCosmos) -> None:
    fake.fill(interaction(ONE))
    with pytest.raises(errors.NotFound, match=rf"^Interaction \[{ONE}\] not found$"):
        run(fake, lambda memory: memory.interactions.get("anna", ONE))


def test_a_deletion_marker_has_the_expiry_of_its_conversation(fake: FakeCosmos) -> None:
    fake.fill(conversation(expires=START + 50.5, ttl=51))
    fake.fail(RESET, after=2, times=99)
    with pytest.raises(errors.Unavailable):
        run(fake, WRITES["delete"][0])
    (mark,) = fake.items

    assert (mark["conversation"], mark["expires"], mark["ttl"]) == ("deleted", START + 50.5, 51)


def test_concurrent_deletions_succeed_or_raise_not_found(fake: FakeCosmos) -> None:
    fill_container(fake, MANY)

    async def both(memory: Memory) -> list[Any]:
        work = [WRITES["delete"][0](memory) for _ in range(4)]
        return await asyncio.gather(*work, return_exceptions=True)

    ends = run(fake, both)

    assert contents(fake) == contents_after("delete")
    assert None in ends
    assert all(end is None or isinstance(end, errors.NotFound) for end in ends)


@pytest.mark.parametrize("at", range(DELETION_REQUESTS))
def test_a_deletion_ignores_interactions_deleted_by_another_call(fake: FakeCosmos, at: int) -> None:
    fill_container(fake, MANY)
    fake.meanwhile[at + 1] = lambda: fake.partitions["user:anna"].pop(f"{MANY - 1:024d}", None)
    run(fake, WRITES["delete"][0])

    assert contents(fake) == contents_after("delete")


def test_nothing_is_added_during_a_deletion(fake: FakeCosmos) -> None:
    fill_container(fake)
    fake.meanwhile[1] = lambda: fake.partitions["user:anna"].pop(C)
    with pytest.raises(errors.NotFound):
        run(fake, WRITES["add"][0])

    assert [each for each in contents(fake) if each.startswith("more")] == []


@pytest.mark.parametrize("first", range(3))
def test_concurrent_additions_and_a_deletion_leave_no_items(fake: FakeCosmos, first: int) -> None:
    fill_container(fake)

    async def race(memory: Memory) -> list[Any]:
        adding = [WRITES["add"][0](memory) for _ in range(20)]
        adding.insert(first * 10, WRITES["delete"][0](memory))
        return await asyncio.gather(*adding, return_exceptions=True)

    ends = run(fake, race)

    assert contents(fake) == contents_after("delete")
    failures = [end for end in ends if isinstance(end, Exception)]
    assert all(isinstance(end, errors.NotFound) for end in failures)


def test_a_conversation_deleted_during_a_list_is_not_found(fake: FakeCosmos) -> None:
    fill_container(fake)
    fake.meanwhile[1] = fake.partitions["user:anna"].clear
    with pytest.raises(errors.NotFound):
        run(fake, lambda memory: memory.interactions.list("anna", C, PageRequest()))


@pytest.mark.parametrize("name", ["rename", "annotate"])
def test_nothing_is_changed_during_a_deletion(fake: FakeCosmos, name: str) -> None:
    fill_container(fake)
    fake.meanwhile[1] = lambda: fake.partitions["user:anna"].pop(C)
    with pytest.raises(errors.NotFound):
        run(fake, WRITES[name][0])

    assert "new" not in json.dumps(contents(fake))


@pytest.mark.parametrize(("name", "at"), [("create", 0), ("add", 1)])
def test_an_id_of_another_item_is_unavailable(fake: FakeCosmos, name: str, at: int) -> None:
    fake.fill(conversation())

    def take() -> None:
        item = fake.requests[-1].body[-1]["resourceBody"]
        fake.fill({**item, "created": "earlier"})

    fake.meanwhile[at] = take
    with pytest.raises(errors.Unavailable):
        run(fake, WRITES[name][0])

    assert [item["created"] for item in fake.items][1:] == ["earlier"]


STATUSES: list[tuple[int, dict[str, str], type[errors.ChatError], str | None]] = [
    (400, {}, errors.Misconfigured, None),
    (401, {}, errors.Misconfigured, None),
    (403, {"x-ms-substatus": "5300"}, errors.Misconfigured, None),
    (404, {"x-ms-substatus": "1003"}, errors.Misconfigured, None),
    (404, {"x-ms-substatus": "1002"}, errors.Unavailable, "1"),
    (408, {}, errors.Unavailable, "1"),
    (409, {}, errors.Unavailable, "1"),
    (410, {}, errors.Unavailable, "1"),
    (412, {}, errors.Unavailable, "1"),
    (413, {}, errors.TooLarge, None),
    (429, {}, errors.TooManyRequests, "1"),
    (429, {"x-ms-retry-after-ms": "0"}, errors.TooManyRequests, "1"),
    (429, {"x-ms-retry-after-ms": "2500"}, errors.TooManyRequests, "3"),
    (429, {"x-ms-retry-after-ms": "60000"}, errors.TooManyRequests, "60"),
    (429, {"x-ms-retry-after-ms": "soon"}, errors.TooManyRequests, "1"),
    (449, {}, errors.Unavailable, "1"),
    (500, {}, errors.Unavailable, "1"),
    (503, {"x-ms-retry-after-ms": "4000"}, errors.Unavailable, "4"),
]


@pytest.mark.parametrize("act", ["create", "put", "list"])
@pytest.mark.parametrize(("status", "headers", "kind", "wait"), STATUSES)
def test_statuses_of_the_service_are_mapped(
    fake: FakeCosmos,
    act: str,
    status: int,
    headers: dict[str, str],
    kind: type[errors.ChatError],
    wait: str | None,
) -> None:
    fake.fail(cosmos_error(status, headers), times=99)
    acts: dict[str, Call] = {
        **{name: write[0] for name, write in WRITES.items()},
        "list": lambda memory: memory.conversations.list("anna", PageRequest()),
    }
    with pytest.raises(errors.ChatError) as caught:
        run(fake, acts[act])

    assert type(caught.value) is kind
    assert caught.value.headers.get("Retry-After") == wait
    assert str(status) in str(caught.value.cause) or kind is errors.TooLarge
    assert "own texts" not in f"{caught.value.message}{caught.value.cause}"
    assert fake.items == []
    passing = status in (408, 410, 449, 500) or headers.get("x-ms-retry-after-ms") == "0"
    assert len(fake.operations) == (2 if passing else 1)


def test_a_read_with_an_invalid_response_is_retried_once(fake: FakeCosmos) -> None:
    fake.fail([b"garbage\r\n\r\n"], times=99)
    with pytest.raises(errors.Unavailable):
        run(fake, lambda memory: memory.conversations.get("anna", C))

    assert len(fake.operations) == 2


def test_a_write_with_a_lost_response_is_retried_once(fake: FakeCosmos) -> None:
    fake.fail(RESET, times=99, applied=True)
    with pytest.raises(errors.Unavailable):
        run(fake, WRITES["create"][0])

    assert len(fake.operations) == 2
    assert contents(fake) == ["new"]


@pytest.mark.parametrize("steps", [GARBAGE, cosmos_response(7), cosmos_error(500), RESET])
def test_items_are_read_if_the_account_request_fails(fake: FakeCosmos, steps: list[Step]) -> None:
    fill_container(fake).fail(steps, times=99, kind="account")

    async def twice(memory: Memory) -> Any:
        with contextlib.suppress(errors.Unavailable):
            await memory.ready()
        return await memory.conversations.get("anna", C)

    assert run(fake, twice).name == "before"


@pytest.mark.parametrize("kind", ["container", "Read"])
@pytest.mark.parametrize(
    "steps", [GARBAGE, cosmos_response(7), RESET], ids=["garbage", "7", "reset"]
)
def test_invalid_responses_are_unavailable(fake: FakeCosmos, kind: str, steps: list[Step]) -> None:
    fake.fail(steps, times=99, kind=kind)
    with pytest.raises(errors.Unavailable):
        run(fake, lambda memory: memory.conversations.get("anna", C))

    fake.faults.clear()
    assert (
        run(fill_container(fake), lambda memory: memory.conversations.get("anna", C)).name
        == "before"
    )


def test_the_store_works_after_a_failure(fake: FakeCosmos) -> None:
    fake.fail(cosmos_error(403), times=1, kind="container")

    async def twice(memory: Memory) -> Any:
        with pytest.raises(errors.Misconfigured):
            await memory.ready()
        await memory.ready()
        return await memory.conversations.create("anna", "new")

    run(fake, twice)

    assert contents(fake) == ["new"]


@pytest.mark.parametrize("existed", [False, True])
def test_a_missing_container_is_misconfigured(fake: FakeCosmos, existed: bool) -> None:
    async def read(memory: Memory) -> None:
        if existed:  # it goes later
            await memory.ready()
        fake.exists = False
        with pytest.raises(errors.Misconfigured) as caught:
            await memory.conversations.get("anna", C)
        assert "container" in str(caught.value.cause)

    run(fake, read)


@pytest.mark.parametrize("status", [401, 403])
def test_the_cause_names_a_missing_role(fake: FakeCosmos, status: int) -> None:
    fake.fail(cosmos_error(status))
    with pytest.raises(errors.Misconfigured) as caught:
        run(fake, lambda memory: memory.ready())

    assert "Cosmos DB Built-in Data Contributor" in str(caught.value.cause)


@pytest.mark.parametrize("kind", ["account", "container", "Read"])
def test_a_stalled_request_times_out_and_the_next_one_works(fake: FakeCosmos, kind: str) -> None:
    fill_container(fake).fail(STALL, kind=kind)

    async def twice(memory: Memory) -> Any:
        with pytest.raises(errors.DeadlineExceeded):
            await memory.conversations.get("anna", C)
        return await memory.conversations.get("anna", C)

    assert run(fake, twice, seconds=0.3).name == "before"


@pytest.mark.parametrize("name", WRITES)
def test_a_cancelled_write_does_not_affect_the_next_one(fake: FakeCosmos, name: str) -> None:
    fill_container(fake).fail(STALL)

    async def cancel(memory: Memory) -> None:
        write = asyncio.ensure_future(WRITES[name][0](memory))
        while not fake.operations:
            await asyncio.sleep(0.001)
        write.cancel()
        await asyncio.wait({write})
        assert write.cancelled()
        await WRITES[name][0](memory)

    run(fake, cancel)

    assert contents(fake) == contents_after(name)


def test_the_cause_names_a_missing_composite_index() -> None:
    with run_cosmos(composite=[]) as fake, pytest.raises(errors.Misconfigured) as caught:
        run(fake, lambda memory: memory.conversations.list("anna", PageRequest()))

    assert "composite index" in str(caught.value.cause)


class FailingCredential(azurite.AzuriteCredential):
    """A credential without an identity."""

    async def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        raise azure.core.exceptions.ClientAuthenticationError("no")


def test_nothing_is_sent_without_an_identity(fake: FakeCosmos) -> None:
    with pytest.raises(errors.Misconfigured) as caught:
        run(fake, lambda memory: memory.ready(), credential=FailingCredential())

    assert "az login" in caught.value.message
    assert fake.requests == []


def test_opening_the_store_sends_nothing(fake: FakeCosmos) -> None:
    async def nothing(_: Memory) -> None:
        await asyncio.sleep(0.05)

    run(fake, nothing)

    assert fake.connections == 0


def test_every_exception_of_the_sdk_is_mapped() -> None:
    modules = (azure.core.exceptions, azure.cosmos.exceptions)
    kinds = [k for module in modules for k in vars(module).values() if isinstance(k, type)]
    sdk: set[Any] = {k for k in kinds if issubclass(k, azure.core.exceptions.AzureError)}
    assert len(sdk) > 20
    kind: Any
    for kind in sdk | {TimeoutError}:
        raised = kind.__new__(kind)
        if issubclass(kind, azure.core.exceptions.HttpResponseError):
            raised.error = raised.response = raised.status_code = None

        with pytest.raises(errors.ChatError), map_errors():
            raise raised


async def call_every_method(memory: Memory) -> None:
    """Call each method of the protocols."""
    created = await memory.conversations.create("anna", "a secret name")
    turn = Turn("a secret question", "a secret prompt", "a secret answer", "chat", "a secret")
    turn = replace(turn, request=REQUEST)
    added = await memory.interactions.add("anna", created.id, turn)
    await memory.conversations.get("anna", created.id)
    await memory.conversations.rename("anna", created.id, "a secret again")
    await memory.conversations.list("anna", PageRequest())
    await memory.interactions.get("anna", added.id)
    await memory.interactions.find("anna", REQUEST)
    await memory.interactions.annotate("anna", added.id, "a secret note")
    await memory.interactions.rate("anna", added.id, "a secret comment")
    await memory.interactions.list("anna", created.id, PageRequest())
    await memory.interactions.list("anna", created.id, PageRequest(), newest_first=False)
    await memory.pipelines.put("p", {"system_prompt": "a secret"})
    await memory.pipelines.get("p")
    await memory.pipelines.all()
    await memory.pipelines.delete("p")
    await memory.conversations.delete("anna", created.id)
    await memory.ready()


def test_every_request_names_one_partition(fake: FakeCosmos) -> None:
    run(fake, call_every_method)
    missing = [each for each in fake.operations if each.status >= 400]

    assert {each.partition for each in fake.operations} == {'["user:anna"]', '["app:pipelines"]'}
    assert [(each.kind, each.status) for each in missing] == [("Read", 404)]  # of `ready`
    across = [
        request.headers.get("x-ms-documentdb-query-enablecrosspartition")
        for request in fake.requests
    ]
    assert set(across) == {None}
    assert fake.connections <= 2


def test_logs_and_causes_contain_no_text_and_no_token(
    fake: FakeCosmos, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    run(fake, call_every_method)
    for steps in (cosmos_error(400), cosmos_error(409), cosmos_error(429, LONG), GARBAGE, RESET):
        fake.fail(steps, after=1, times=99)
        with pytest.raises(errors.ChatError) as caught:
            run(fake, call_every_method)
        fake.faults.clear()
        assert "secret" not in f"{caught.value} {caught.value.cause}"
    printed = capfd.readouterr()

    assert "secret" not in caplog.text + printed.out + printed.err
    assert azurite.token() not in caplog.text + printed.out + printed.err


def measure_cost(fake: FakeCosmos, work: Call) -> tuple[int, int]:
    """Return the number of operations of some work, and of the items that they read."""
    fake.operations.clear()
    run(fake, work)
    return len(fake.operations), sum(each.items_read for each in fake.operations)


SIZES = [10, 10_000]
FIRST = f"{1:024d}"


def test_the_cost_of_a_first_page_is_constant(fake: FakeCosmos) -> None:
    costs = []
    for size in SIZES:
        for number in range(size):
            fake.fill(conversation(f"{number:024d}"))
        costs.append(
            measure_cost(fake, lambda memory: memory.conversations.list("anna", PageRequest()))
        )

    assert costs == [(1, 10), (1, 10)]
    for start in (500, 5000):
        page = PageRequest(start, 10)
        cost = measure_cost(fake, lambda memory, page=page: memory.conversations.list("anna", page))  # type: ignore[misc]
        assert cost == (1, start + 10)


def test_the_cost_of_an_interaction_is_constant(fake: FakeCosmos) -> None:
    fake.fill(conversation())
    costs = []
    for size in SIZES:
        for number in range(1, size + 1):
            fake.fill(interaction(f"{number:024d}"))
        works: list[Call] = [
            lambda memory: memory.interactions.list("anna", C, PageRequest()),
            lambda memory: memory.interactions.list("anna", C, PageRequest(), newest_first=False),
            WRITES["add"][0],
            lambda memory: memory.interactions.get("anna", FIRST),
            lambda memory: memory.interactions.annotate("anna", FIRST, "new"),
            WRITES["create"][0],
        ]
        costs.append([measure_cost(fake, work) for work in works])

    assert costs[0] == costs[1] == [(2, 11), (2, 11), (2, 3), (2, 2), (2, 3), (1, 1)]


async def create_last_conversation(memory: Memory) -> None:
    """Create a conversation, and fail to create another."""
    await memory.conversations.create("anna", "the last")
    with pytest.raises(TooManyConversations):
        await memory.conversations.create("anna", "one too many")


def test_the_limit_costs_one_count_per_new_conversation(fake: FakeCosmos) -> None:
    for number in range(9999):
        fake.fill(conversation(f"{number:024d}"))

    run(fake, create_last_conversation, max_conversations=10_000)

    assert [(each.kind, each.items_read) for each in fake.operations] == [
        ("query", 0),
        ("batch", 1),
        ("query", 0),
    ]


def test_partial_counts_are_summed(fake: FakeCosmos) -> None:
    fake.max_count = 2
    for number in range(5):
        fake.fill(conversation(f"{number:024d}"))
        fake.fill(interaction(f"1{number:023d}"))

    run(fake, create_last_conversation, max_conversations=6)


def test_the_limit_of_bytes_costs_one_sum_per_turn(fake: FakeCosmos) -> None:
    fill_container(fake)
    for number in range(100):
        fake.fill(interaction(f"1{number:023d}") | {"bytes": 1000})

    run(fake, WRITES["add"][0], max_bytes=100_001)

    assert [(each.kind, each.items_read) for each in fake.operations] == [
        ("Read", 1),
        ("query", 0),
        ("batch", 2),
    ]
    fake.fill(interaction("2") | {"bytes": 1})
    with pytest.raises(TooManyBytes):
        run(fake, WRITES["add"][0], max_bytes=100_001)


def test_a_failed_count_creates_no_conversation(fake: FakeCosmos) -> None:
    fake.fail(cosmos_error(500), times=2, kind="query")
    with pytest.raises(errors.Unavailable):
        run(fake, WRITES["create"][0], max_conversations=6)

    assert contents(fake) == []


def test_an_expired_conversation_does_not_count_for_the_limit(fake: FakeCosmos) -> None:
    clock = ManualClock()
    fake.now = clock

    async def work(memory: Memory) -> None:
        await memory.conversations.create("anna", "old")
        clock.now = START + 101
        await memory.conversations.create("anna", "new")

    run(fake, work, retention_seconds=100, max_conversations=1)

    assert contents(fake) == ["new"]


def test_pages_start_anywhere_in_both_orders(fake: FakeCosmos) -> None:
    fake.fill(conversation())
    for number in range(1, 301):
        fake.fill(interaction(f"{number:024d}", input=str(number)))

    async def pages(memory: Memory) -> list[list[str]]:
        how = [
            (PageRequest(0, 3), True),
            (PageRequest(298, 9), True),
            (PageRequest(2, 3), False),
            (PageRequest(300, 9), True),
        ]
        every = [*how, (PageRequest(0, 250), False)]
        results = [await memory.interactions.list("anna", C, page, way) for page, way in every]
        return [[each.turn.input for each in page] for page in results]

    *short, long = run(fake, pages)

    assert short == [["300", "299", "298"], ["2", "1"], ["3", "4", "5"], []]
    assert long == [str(number) for number in range(1, 251)]


def test_many_pipelines_are_read_in_pages(fake: FakeCosmos) -> None:
    async def work(memory: Memory) -> Any:
        for number in range(120):
            await memory.pipelines.put(f"p/{number}", {"number": number})
        return await memory.pipelines.all()

    assert run(fake, work) == {f"p/{number}": {"number": number} for number in range(120)}
    assert [each.kind for each in fake.operations][-3:] == ["Upsert", "query", "query"]


def expiries(fake: FakeCosmos) -> list[tuple[float, int]]:
    return [(item["expires"] - START, item["ttl"]) for item in fake.items]


def test_each_write_updates_the_time_to_live(
    fake: FakeCosmos,
) -> None:
    clock = ManualClock()

    async def work(memory: Memory) -> tuple[str, str]:
        created = await memory.conversations.create("anna", "one")
        assert expiries(fake) == [(100, 100)]
        clock.now = START + 10.5
        added = await memory.interactions.add("anna", created.id, Turn("more"))
        assert expiries(fake) == [(100, 100), (100, 90)]
        clock.now = START + 40
        await memory.conversations.rename("anna", created.id, "two")
        assert expiries(fake) == [(100, 60), (100, 90)]
        clock.now = START + 99.5
        await memory.interactions.annotate("anna", added.id, "new")
        assert expiries(fake) == [(100, 60), (100, 1)]
        await memory.conversations.rename("anna", created.id, "three")
        return created.id, added.id

    ids = run(fake, work, retention_seconds=100, now=clock)

    assert expiries(fake) == [(100, 1), (100, 1)]
    clock.now = START + 99.9
    run(
        fake,
        lambda memory: memory.interactions.get("anna", ids[1]),
        retention_seconds=100,
        now=clock,
    )


@pytest.mark.parametrize("removes", [False, True])
def test_expired_items_are_not_found_before_the_service_deletes_them(
    removes: bool,
) -> None:
    clock = ManualClock()

    async def work(memory: Memory) -> None:
        created = await memory.conversations.create("anna", "one")
        turn = Turn("more", request=REQUEST)
        added = await memory.interactions.add("anna", created.id, turn)
        clock.now = START + 100
        looks: list[Callable[[], Awaitable[Any]]] = [
            lambda: memory.conversations.get("anna", created.id),
            lambda: memory.conversations.rename("anna", created.id, "two"),
            lambda: memory.conversations.delete("anna", created.id),
            lambda: memory.interactions.add("anna", created.id, Turn("more")),
            lambda: memory.interactions.list("anna", created.id, PageRequest()),
            lambda: memory.interactions.get("anna", added.id),
            lambda: memory.interactions.find("anna", REQUEST),
            lambda: memory.interactions.annotate("anna", added.id, "new"),
            lambda: memory.interactions.rate("anna", added.id, "bad"),
            lambda: memory.interactions.delete("anna", added.id),
        ]
        for look in looks:
            with pytest.raises(errors.NotFound):
                await look()
        assert await memory.conversations.list("anna", PageRequest()) == ()

    with run_cosmos(now=clock, ttl=-1 if removes else None) as fake:
        run(fake, work, retention_seconds=100)

        assert len(fake.items) == (0 if removes else 2)


def test_items_without_retention_have_no_expiry(fake: FakeCosmos) -> None:
    async def work(memory: Memory) -> None:
        created = await memory.conversations.create("anna", "one")
        await memory.interactions.add("anna", created.id, Turn("more"))
        await memory.conversations.rename("anna", created.id, "two")

    run(fake, work)

    assert [item.keys() & {"ttl", "expires"} for item in fake.items] == [set(), set()]


def calls_with_conversation(memory: Memory, id: str) -> list[Awaitable[Any]]:
    chats, talk = memory.conversations, memory.interactions
    return [
        chats.get("anna", id),
        chats.rename("anna", id, "new"),
        chats.delete("anna", id),
        talk.add("anna", id, Turn("more")),
        talk.list("anna", id, PageRequest()),
    ]


def calls_with_interaction(memory: Memory, id: str) -> list[Awaitable[Any]]:
    talk = memory.interactions
    return [talk.get("anna", id), talk.annotate("anna", id, "new"), talk.rate("anna", id, "bad")]


async def check_all_not_found(work: list[Awaitable[Any]]) -> None:
    for each in await asyncio.gather(*work, return_exceptions=True):
        assert isinstance(each, errors.NotFound)


ANY_TEXT = st.text(max_size=80) | st.text("/\\?#%& \t\r\n\0.'\"é\ud800", min_size=1, max_size=9)


@settings(max_examples=10, deadline=None)
@given(st.lists(ANY_TEXT | st.just("x" * 300) | st.just(f"{C}-deleted"), max_size=20))
def test_an_invalid_id_is_not_found_and_not_sent(ids: list[str]) -> None:
    invalid = [id for id in ids if not re.fullmatch("[0-9A-Za-z]{1,64}", id)]

    async def work(memory: Memory) -> None:
        for id in invalid:
            await check_all_not_found(
                [*calls_with_conversation(memory, id), *calls_with_interaction(memory, id)]
            )

    with run_cosmos() as fake:
        run(fake, work)

        assert fake.operations == []


@settings(max_examples=10, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text())
def test_any_owner_and_any_pipeline_name_can_be_stored(owner: str, name: str) -> None:
    async def work(memory: Memory) -> None:
        created = await memory.conversations.create(owner, owner)
        assert await memory.conversations.list(owner, PageRequest()) == (created,)
        await memory.pipelines.put(name, {name: owner})
        assert await memory.pipelines.get(name) == {name: owner}
        assert await memory.pipelines.all() == {name: {name: owner}}
        assert await memory.pipelines.delete(name)

    with run_cosmos() as fake:
        run(fake, work)


def test_an_id_of_another_type_is_not_found(fake: FakeCosmos) -> None:
    fill_container(fake)
    fake.fill(conversation(f"{C}-deleted", conversation="deleted"))
    fake.fill(conversation("e" * 24, owner="user:bert"))
    fake.fill(interaction("3" * 24, owner="user:bert", conversation="e" * 24))
    (pipeline,) = (item["id"] for item in fake.items if item["conversation"] == "pipeline")

    async def work(memory: Memory) -> None:
        for id in (ONE, "e" * 24, "3" * 24, pipeline, "deleted", "pipeline", "none"):
            await check_all_not_found(calls_with_conversation(memory, id))
        for id in (C, "e" * 24, "3" * 24, pipeline, "deleted", "none"):
            await check_all_not_found(calls_with_interaction(memory, id))

    there = contents(fake)
    run(fake, work)

    assert contents(fake) == there


ACCEPTED_CALLS: list[tuple[str, Callable[[ContainerProxy], Awaitable[Any]]]] = [
    ("create", lambda box: box.create_item(conversation("n"))),
    ("upsert", lambda box: box.upsert_item(conversation(ttl=1))),
    ("replace", lambda box: box.replace_item(C, conversation(name="new"))),
    ("read", lambda box: box.read_item(C, "user:anna")),
    ("delete", lambda box: box.delete_item(C, "user:anna")),
    ("patch", lambda box: box.patch_item(C, "user:anna", [setting("/name", "new")])),
    ("query", lambda box: rows(box, SELECT_ALL, partition_key="user:anna")),
]
REJECTED_CALLS: list[tuple[str, Callable[[ContainerProxy], Awaitable[Any]]]] = [
    ("over partitions", lambda box: rows(box, SELECT_ALL)),
    ("another query", lambda box: rows(box, "SELECT * FROM c", partition_key="user:anna")),
    ("no time to live", lambda box: box.upsert_item(conversation(ttl=0))),
    ("a time to live in parts", lambda box: box.upsert_item(conversation(ttl=1.5))),
    (
        "an id without a path",
        lambda box: box.execute_item_batch(creation("a/b"), "user:anna"),
    ),
    ("a long id", lambda box: box.upsert_item(conversation("x" * 256))),
    ("another's", lambda box: box.execute_item_batch(creation("n"), "user:bert")),
    ("another id", lambda box: box.patch_item(C, "user:anna", [setting("/id", "n")])),
    (
        "counting",
        lambda box: box.patch_item(C, "user:anna", [{**setting("/name", 1), "op": "incr"}]),
    ),
    (
        "too many at once",
        lambda box: box.execute_item_batch(creation("n") * 101, "user:anna"),
    ),
]


def setting(path: str, value: Any) -> dict[str, Any]:
    return {"op": "set", "path": path, "value": value}


def creation(id: str) -> list[BatchOperation]:
    return [("create", (conversation(id),))]


async def rows(box: ContainerProxy, query: str, **how: Any) -> list[Any]:
    values: list[dict[str, object]] = [{"name": "@conversation", "value": ""}]
    return [row async for row in box.query_items(query, parameters=values, **how)]


def run_on_container(fake: FakeCosmos, work: Callable[[ContainerProxy], Awaitable[Any]]) -> None:
    async def go(memory: Memory) -> None:
        await memory.ready()
        await work(memory.pipelines.container._container)  # type: ignore[attr-defined]

    run(fill_container(fake), go)


@pytest.mark.parametrize(("_", "work"), ACCEPTED_CALLS, ids=[name for name, _ in ACCEPTED_CALLS])
def test_the_fake_accepts_valid_calls(
    fake: FakeCosmos, _: str, work: Callable[[ContainerProxy], Awaitable[Any]]
) -> None:
    run_on_container(fake, work)

    assert fake.operations[-1].status < 300


@pytest.mark.parametrize(("_", "work"), REJECTED_CALLS, ids=[name for name, _ in REJECTED_CALLS])
def test_the_fake_rejects_invalid_calls(
    fake: FakeCosmos, _: str, work: Callable[[ContainerProxy], Awaitable[Any]]
) -> None:
    with pytest.raises(azure.core.exceptions.HttpResponseError):
        run_on_container(fake, work)

    assert fake.operations[-1].status == 400
    assert contents(fake) == BEFORE


def test_a_batch_of_the_fake_is_atomic(fake: FakeCosmos) -> None:
    changes: list[BatchOperation] = [
        ("delete", (C,)),
        *creation("n"),
        ("read", ("missing",)),
        *creation("m"),
    ]
    with pytest.raises(azure.cosmos.exceptions.CosmosBatchOperationError) as caught:
        run_on_container(fake, lambda box: box.execute_item_batch(changes, "user:anna"))
    statuses = [each["statusCode"] for each in caught.value.operation_responses]

    assert (caught.value.status_code, caught.value.error_index) == (404, 2)
    assert statuses == [424, 424, 404, 424]
    assert contents(fake) == BEFORE
