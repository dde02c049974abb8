"""A client of AOG's chat service against the app, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.support.aog_client import AogClient, AogError
from tests.support.model_requests import SHIRT_CONVERSATION
from tests.support.servers import TIMEOUT, Server

WORDS = 60
ATTEMPTS = 10


@pytest.fixture
def client(server: Server) -> Iterator[AogClient]:
    with server.client() as http:
        yield AogClient(http)


def asking(*orders: str) -> list[dict[str, Any]]:
    """A question that orders the model about."""
    return [{"role": "user", "content": "; ".join(orders)}]


def read_stream(client: AogClient, *orders: str) -> list[Any]:
    """Return the events of a stream, each from one read.

    On a busy machine the client can be later than the pause between two events: then they arrive
    in one read, and it asks again. Without a pause no attempt would succeed.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(json.JSONDecodeError):
            return list(client.stream(asking(*orders)))
    return list(client.stream(asking(*orders)))


def test_whole_answer(client: AogClient) -> None:
    got = client.chat(asking("say Hello", "say  there"))

    assert got["message"] == {"role": "assistant", "content": "Hello there"}
    assert (got["finished"], got["finish_reason"], got["model"]) == (True, "stop", "command_model")
    assert got["context"]["data_points"].keys() >= {"text", "citations"}


def test_each_event_is_one_read(client: AogClient) -> None:
    *events, last = read_stream(client, *(f"say {number} " for number in range(WORDS)))

    assert events[0]["context"]["data_points"].keys() >= {"text", "citations"}
    assert [each["message"]["content"] for each in events] == [f"{n} " for n in range(WORDS)]
    assert (last["finished"], last["finish_reason"]) == (True, "stop")
    assert len({each["id"] for each in (*events, last)}) == 1


def test_events_arrive_one_by_one(client: AogClient, server: Server) -> None:
    name = f"aog-{time.monotonic_ns()}"
    events = client.stream(asking("say one", f"wait for {name}", "say two"))

    assert next(events)["message"]["content"] == "one"
    with server.client() as other:
        AogClient(other).chat(asking(f"release {name}"))
    assert [each["message"]["content"] for each in events] == ["two", ""]


def test_disconnect_closes_the_model_stream(client: AogClient, server: Server) -> None:
    name = f"aog-left-{time.monotonic_ns()}"
    events = client.stream(asking(f"open as {name}", "say one", "wait for nothing at all"))
    assert next(events)["message"]["content"] == "one"
    events.close()  # type: ignore[attr-defined]

    state, until = "open", time.monotonic() + TIMEOUT
    with server.client() as other:
        while state == "open" and time.monotonic() < until:
            state = AogClient(other).chat(asking(f"report {name}"))["message"]["content"]
    assert state == "closed"


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ("refuse with content filter", 40003),
        ("refuse with too long", 40003),
        ("refuse with 429 after 7", 40017),
        ("refuse with outage", 40017),
        ("refuse with misconfigured", 40017),
        ("refuse with timeout", 40017),
        ("refuse with bug", 500),
    ],
)
def test_rejection_has_a_business_code(client: AogClient, order: str, code: int) -> None:
    for ask in (client.chat, lambda messages: list(client.stream(messages))):
        with pytest.raises(AogError) as failed:
            ask(asking(order))

        assert failed.value.code == code
        assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("order", "code"), [("fail with outage", 40017), ("fail with content filter", 40003)]
)
def test_failure_in_the_stream_is_the_last_event(client: AogClient, order: str, code: int) -> None:
    texts = []
    with pytest.raises(AogError) as failed:
        for event in client.stream(asking("say Half", order)):
            texts.append(event["message"]["content"])

    assert (texts, failed.value.code) == (["Half"], code)


def test_bug_in_the_stream_is_an_internal_error(client: AogClient) -> None:
    with pytest.raises(AogError) as failed:
        list(client.stream(asking("say Half", "fail with bug")))

    assert failed.value.code == 500
    assert "secret" not in str(failed.value)


def test_conversation_of_the_specification_is_accepted(client: AogClient) -> None:
    assert client.chat(list[Any](SHIRT_CONVERSATION))["finished"] is True


def test_metadata_lists_the_service_and_its_provider(client: AogClient) -> None:
    (service,) = client.services()
    (provider,) = client.providers()

    assert service["local_service_providers"] == provider["provider_name"] == "custom"
    assert "auth_key" not in provider


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/aog/v0.2/services/embed", 404, 10011),
        ("POST", "/aog/v0.1/services/chat", 404, 404),
        ("POST", "/aog/v1.0/services/chat", 404, 404),
        ("GET", "/aog/v0.2/models", 404, 404),
        ("GET", "/aog", 404, 404),
        ("GET", "/aog/v0.2/services/chat", 405, 40005),
        ("DELETE", "/aog/v0.2/services/chat", 405, 40005),
        ("POST", "/aog/v0.2/service", 405, 40005),
        ("PUT", "/aog/v0.2/service_provider", 405, 40005),
    ],
)
def test_unknown_service_and_version_have_aog_errors(
    client: AogClient, method: str, path: str, status: int, code: int
) -> None:
    got = client.http.request(method, path, json={"messages": []} if method != "GET" else None)

    assert (got.status_code, got.json()["business_code"]) == (status, code)
    if status == 405:
        assert got.headers["allow"]


@pytest.mark.parametrize("content_type", ["text/plain", "multipart/form-data; boundary=x", None])
def test_other_content_type_is_rejected(client: AogClient, content_type: str | None) -> None:
    headers = {"content-type": content_type} if content_type else {}
    content = b'{"messages": [{"role": "user", "content": "say x"}]}'
    got: httpx.Response = client.http.post(
        "/aog/v0.2/services/chat", content=content, headers=headers
    )

    assert (got.status_code, got.json()["business_code"]) == (415, 40004)
