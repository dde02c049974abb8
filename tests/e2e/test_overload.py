"""An app with as many answers in progress as it may have refuses more, over real HTTP."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from tests.support.servers import COMMAND_MODEL, TIMEOUT, Server, run_server


def asking(orders: str, **keys: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": orders}], **keys}


def ask_when_admitted(client: httpx.Client, orders: str) -> httpx.Response:
    """Ask again while the app refuses."""
    until = time.monotonic() + TIMEOUT / 2
    while True:
        response = client.post("/chat", json=asking(orders))
        if response.status_code != 503 or time.monotonic() > until:
            return response
        time.sleep(0.05)


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = {**COMMAND_MODEL, "MAX_CONCURRENT_ANSWERS": "2"}
    with run_server(kind, tmp_path_factory.mktemp("log"), settings) as server:
        yield server


def test_full_app_refuses_at_once_while_its_streams_go_on(server: Server) -> None:
    going = asking("say one; wait for go; say two")
    with (
        server.client() as first,
        server.client() as second,
        server.client() as third,
        first.stream("POST", "/chat/stream", json=going) as stays,
    ):
        lines = stays.iter_lines()
        next(lines)
        with second.stream("POST", "/chat/stream", json=asking("wait for never")) as leaves:
            other_lines = leaves.iter_lines()
            next(other_lines)
            large = asking("say x", padding="x" * 1_000_000)
            refused = [third.post("/chat", json=large) for _ in range(3)]
            health = third.get("/health")
        second.close()  # only now is there room for the question that lets the first go on
        released = ask_when_admitted(third, "release go")
        rest = [json.loads(line) for line in lines]

    assert [(each.status_code, each.headers.get("Retry-After")) for each in refused] == [
        (503, "5")
    ] * 3
    assert "error" in refused[0].json()
    assert (health.status_code, released.status_code) == (200, 200)
    assert [line["delta"].get("content") for line in rest] == ["one", "two", None]
    assert server.log.count("outcome=Overloaded") >= 3
