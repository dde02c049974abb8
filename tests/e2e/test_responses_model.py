"""The app over a model with the Responses API: in front of it everything is as with another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.support.responses_upstream import ResponsesUpstream, text_delta
from tests.support.servers import Server, run_server
from tests.support.upstream import (
    Exchange,
    Upstream,
    error_response,
    run_upstream,
    stream_response,
)

MESSAGES = [
    {"role": "user", "content": "Hello?"},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "What is in Plus?"},
]
BODY = {"messages": MESSAGES}
STREAM = {**BODY, "stream": True}
CALLS: list[Any] = [
    pytest.param("/chat", BODY, id="chat"),
    pytest.param("/chat/stream", BODY, id="chat, streamed"),
    pytest.param("/v1/chat/completions", BODY, id="chat completions"),
    pytest.param("/v1/chat/completions", STREAM, id="chat completions, streamed"),
    pytest.param("/aog/v0.2/services/chat", BODY, id="AOG"),
    pytest.param("/aog/v0.2/services/chat", STREAM, id="AOG, streamed"),
    pytest.param("/v1/responses", {"input": MESSAGES}, id="Responses"),
    pytest.param("/v1/responses", {"input": MESSAGES, "stream": True}, id="Responses, streamed"),
]
# What the models' servers tell of themselves, and what differs with each request.
OTHER = {
    *("id", "item_id", "created", "created_at", "completed_at", "model", "usage"),
    *("system_fingerprint", "prompt_filter_results", "content_filter_results"),
}

Apps = list[tuple[Upstream, httpx.Client]]


@pytest.fixture(scope="module")
def apps(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apps]:
    """The app over chat completions, and over Responses."""
    folder = tmp_path_factory.mktemp("apis")
    with ExitStack() as stack:
        running = []
        for model in (Upstream(), ResponsesUpstream()):
            stack.enter_context(run_upstream(model))
            settings = {
                "OPENAI_BASE_URL": f"{model.url}/v1",
                "OPENAI_CHAT_MODEL": "m",
                "CHAT_MODEL_API": model.api.name,
            }
            server: Server = stack.enter_context(run_server(kind, folder, settings))
            running.append((model, stack.enter_context(server.client())))
        yield running


def without_others(value: Any) -> Any:
    """A value without what may differ."""
    if isinstance(value, dict):
        return {key: without_others(each) for key, each in value.items() if key not in OTHER}
    return [without_others(each) for each in value] if isinstance(value, list) else value


def objects(response: httpx.Response) -> list[Any]:
    """The JSON of a response, or of the lines and events of a stream."""
    lines = [line.removeprefix("data: ") for line in response.text.split("\n")]
    return [without_others(json.loads(line)) for line in lines if line.startswith("{")]


@pytest.mark.parametrize(("path", "body"), CALLS)
def test_every_protocol_answers_alike(apps: Apps, path: str, body: Any) -> None:
    first, second = (client.post(path, json=body) for _, client in apps)

    assert (first.status_code, second.status_code) == (200, 200), second.text
    assert "[a.md]." in first.text
    assert objects(first) == objects(second)


@pytest.mark.parametrize(("path", "body"), CALLS)
def test_every_protocol_reports_a_failure_alike(apps: Apps, path: str, body: Any) -> None:
    got = []
    for model, client in apps:
        rewritten = stream_response(model.api.answer("Plus"))
        model.plan = [rewritten, error_response(429, {"Retry-After": "30"})]
        refused = client.post(path, json=body)
        broken = [model.api.text("Half"), model.api.error({"code": "server_error"})]
        model.plan = [rewritten, stream_response(broken)]
        failed = client.post(path, json=body)
        got.append([(each.status_code, objects(each)) for each in (refused, failed)])
        assert refused.status_code in (429, 502)  # AOG has no 429
        assert "upstream" not in refused.text + failed.text

    assert got[0] == got[1]


def test_a_stream_arrives_piece_by_piece(apps: Apps) -> None:
    model, client = apps[1]
    model.plan = [stream_response([text_delta("Half"), Exchange.stall])]
    body = {"messages": MESSAGES[2:]}
    with client.stream("POST", "/chat/stream", json=body) as response:
        lines = response.iter_lines()
        first, second = json.loads(next(lines)), json.loads(next(lines))

    assert "data_points" in first["context"]
    assert second["delta"]["content"] == "Half"
