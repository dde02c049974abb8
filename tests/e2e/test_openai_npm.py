"""OpenAI's own npm package, in its two classes, against the running app."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.calls import CHAT_KEY
from tests.support.fake_search import FakeSearch
from tests.support.node import needs_packages, run_script
from tests.support.openai_app import running
from tests.support.search_app import PUBLIC, home
from tests.support.servers import Server, ended
from tests.support.upstream import Upstream, answer_events, stream_response

__all__ = ["home", "running"]

pytestmark = needs_packages

CLASSES = ["v1", "openai/v1", "azure"]


def run(url: str, *scenario: str, **settings: str) -> Any:
    """What the package saw."""
    return run_script("openai.mjs", url, *scenario, **settings)


@pytest.fixture(params=CLASSES)
def client_class(request: pytest.FixtureRequest) -> str:
    """Which class asks, and where."""
    return str(request.param)


def deltas(chunks: list[Any]) -> list[Any]:
    return [chunk["choices"][0]["delta"] for chunk in chunks]


def test_answer_and_stream(server: Server, client_class: str) -> None:
    whole = run(server.url, client_class, "whole")["choices"][0]["message"]
    streamed = deltas(run(server.url, client_class, "stream"))

    assert whole["content"] == "Yes 漢字"
    assert whole["context"].keys() == {"citations", "intent"}
    assert [delta.get("content") for delta in streamed] == [None, "Yes", "漢字", None]
    assert ["context" in delta for delta in streamed] == [True, False, False, False]


def test_usage_and_models(server: Server, client_class: str) -> None:
    *_, last = run(server.url, client_class, "usage")

    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 49)
    assert [model["id"] for model in run(server.url, client_class, "models")] == ["command_model"]


def test_tool_calls(server: Server, client_class: str) -> None:
    whole = run(server.url, client_class, "tools")["choices"][0]
    streamed = run(server.url, client_class, "helper")

    for choice in (whole, streamed):
        (called,) = choice["message"]["tool_calls"]
        assert choice["finish_reason"] == "tool_calls"
        assert (called["id"], called["type"]) == ("call_1", "function")
        assert called["function"]["name"] == "f"
        assert json.loads(called["function"]["arguments"]) == {"q": 1}
    assert streamed["message"]["content"] == "Yes"


def without_indexes(message: Any) -> list[Any]:
    """The annotations of a message; those that come in a stream have an index besides."""
    return [{**each, "index": None} for each in message["annotations"]]


def test_folded_stream_is_the_whole_answer(server: Server, client_class: str) -> None:
    whole, folded = run(server.url, client_class, "cited")

    assert (folded["content"], folded["context"]) == (whole["content"], whole["context"])
    assert len(whole["annotations"]) == 2
    assert without_indexes(folded) == without_indexes(whole)


def test_tools_are_run(server: Server, client_class: str) -> None:
    assert run(server.url, client_class, "runTools") == ["Sunny 1", "Sunny 1"]


REFUSALS = [
    ("busy", "RateLimitError", 429, "rate_limit_exceeded", None),
    ("filtered", "BadRequestError", 400, "content_filter", None),
    ("wrong", "BadRequestError", 400, None, "n"),
    ("unknown", "NotFoundError", 404, "model_not_found", "model"),
]


@pytest.mark.parametrize(("scenario", "name", "status", "code", "param"), REFUSALS)
def test_rejection_is_an_error_of_the_package(
    server: Server,
    client_class: str,
    scenario: str,
    name: str,
    status: int,
    code: str | None,
    param: str | None,
) -> None:
    error = run(server.url, client_class, scenario)

    assert (error["name"], error["status"]) == (name, status)
    assert (error["code"], error["param"]) == (code, param)
    assert error["after"] == ("7" if scenario == "busy" else None)


def test_failure_in_the_stream_is_thrown(server: Server, client_class: str) -> None:
    assert "not available" in run(server.url, client_class, "mid-stream")["message"]


def test_disconnect_closes_the_model_stream(server: Server) -> None:
    run(server.url, "v1", "abort")
    with server.client() as client:
        assert ended(client, "npm-openai") == "closed"


def test_data_source(running: tuple[FakeSearch, Upstream, str], client_class: str) -> None:
    search, model, url = running
    search.requests.clear()
    model.plan[:] = [stream_response(answer_events("It is in [pl", "an.md]."))] * 3
    where = {"endpoint": search.url, "index_name": "docs", "filter": "category ne 'other'"}
    source = json.dumps({"type": "azure_search", "parameters": where})
    keys = {"CHAT_API_KEY": CHAT_KEY, "CHAT_MODEL_NAME": "m"}
    whole = run(url, client_class, "source", source, **keys)["choices"][0]["message"]
    first, *rest = deltas(run(url, client_class, "source, streaming", source, **keys))

    folded = run(url, client_class, "source, folded", source, **keys)

    assert (folded["content"], folded["context"]) == (whole["content"], whole["context"])
    assert without_indexes(folded) == without_indexes(whole)
    assert whole["content"] == "".join(d.get("content") or "" for d in rest) == "It is in [doc2]."
    files = [citation["filepath"] for citation in whole["context"]["citations"]]
    assert files == ["public.md", "plan.md"]
    assert first["context"] == whole["context"]
    filters = {request.body["filter"] for request in search.requests}
    assert filters == {f"{PUBLIC} and (category ne 'other')"}
