"""npm packages ask by the Responses API, against the running app: OpenAI's, and the AI SDK's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import needs_node_22, needs_packages, node_22, run
from tests.support.responses_upstream import TEXT
from tests.support.servers import Server, ended

pytestmark = needs_packages

PAGE = "plans/northwind_health_plus.pdf#page=2"
TEXTS = ["漢字: ", f"[{PAGE}]", "."]
ANSWER = "".join(TEXTS)


def read(folder: Path, *command: str) -> Any:
    """What the package saw."""
    done = run(folder, *command)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


ERROR = ("name", "status", "code", "param")
ERRORS = [
    ("RateLimitError", 429, "rate_limit_exceeded", ""),
    ("BadRequestError", 400, "content_filter", ""),
    ("BadRequestError", 400, "unsupported_value", "tools[0].type"),
    ("NotFoundError", 404, "model_not_found", "model"),
    ("BadRequestError", 400, "previous_response_not_found", "previous_response_id"),
    ("NotFoundError", 404, "not_found", ""),
    ("BadRequestError", 400, "invalid_value", "background"),
]


@pytest.mark.parametrize("client_class", ["v1", "azure"])
def test_openai(memory_server: Server, tmp_path: Path, client_class: str) -> None:
    seen = read(tmp_path, "node", "responses.mjs", memory_server.url, client_class, "anna")
    whole, retrieved, last = seen["whole"], seen["retrieved"], seen["stream"][-1]
    types = [event["type"].removeprefix("response.") for event in seen["stream"]]
    (citation,) = whole["output"][0]["content"][0]["annotations"]

    assert whole["output_text"] == last["response"]["output"][0]["content"][0]["text"] == ANSWER
    assert ANSWER[citation["start_index"] : citation["end_index"]] == f"[{PAGE}]"
    assert types == ["created", "in_progress", *TEXT, "completed"]
    assert [item["type"] for item in seen["helper"]["output"]] == ["message", "function_call"]
    assert (seen["continued"], seen["repeated"]) == ("Sunny", "Sunny")
    (item,) = seen["inputItems"]
    assert item["content"][0]["text"] == seen["questions"]
    assert (retrieved["id"], retrieved["output"]) == (whole["id"], whole["output"])
    assert seen["deleted"]["deleted"] is True
    assert [tuple(error[name] for name in ERROR) for error in seen["errors"]] == ERRORS
    assert seen["failure"]["response"]["error"]["code"] == "server_error"
    with memory_server.client() as client:
        client.headers["x-ms-client-principal-id"] = "anna"
        assert ended(client, "npm-responses") == "closed"


UNKNOWN_ITEM = "is not stored here. Send the item itself (store: false)."


def ask_ai_sdk(server: Server, folder: Path, *arguments: str) -> Any:
    """What the AI SDK saw: the same with every provider, but for sources and second turns."""
    seen = read(folder, str(node_22()), "ai_sdk.mjs", server.url, *arguments)

    assert seen["whole"]["text"] == ANSWER
    assert seen["whole"]["usage"]["totalTokens"] == 49
    assert (seen["stream"]["texts"], seen["stream"]["finishReason"]) == (TEXTS, "stop")
    assert seen["withTool"]["text"] == "Sunny 1"
    assert seen["withToolStreamed"]["texts"] == ["Sunny 1"]
    assert seen["structured"] == {"q": 1}
    busy, filtered = seen["failures"]
    assert (busy["status"], filtered["status"]) == (429, 400)
    assert "busy" in busy["error"]
    assert "flagged" in filtered["error"]
    (failure,) = seen["failure"]["errors"]
    assert "not available" in failure
    return seen


def check_sources(seen: Any) -> None:
    for answer in (seen["whole"], seen["stream"]):
        (source,) = answer["sources"]
        assert (source["sourceType"], source["title"]) == ("url", PAGE)
        assert source["url"].endswith(f"/content/{PAGE}")


@needs_node_22
def test_ai_sdk_sends_the_items_again(server: Server, tmp_path: Path) -> None:
    seen = ask_ai_sdk(server, tmp_path, "openai", "false")

    check_sources(seen)
    assert seen["again"]["text"] == "call f"


@needs_node_22
def test_ai_sdk_refers_to_stored_items(memory_server: Server, tmp_path: Path) -> None:
    seen = ask_ai_sdk(memory_server, tmp_path, "openai", "true", "anna")

    check_sources(seen)
    assert seen["again"]["text"] == "call f"


@needs_node_22
def test_ai_sdk_shows_why_there_is_no_second_turn(server: Server, tmp_path: Path) -> None:
    seen = ask_ai_sdk(server, tmp_path, "openai", "true")

    assert seen["again"]["status"] == 404
    assert UNKNOWN_ITEM in seen["again"]["error"]


@needs_node_22
def test_ai_sdk_of_open_responses(server: Server, tmp_path: Path) -> None:
    seen = ask_ai_sdk(server, tmp_path, "open-responses", "true")

    assert seen["again"]["text"] == "call f"
