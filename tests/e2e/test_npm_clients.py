"""Clients that we did not write work unchanged: the npm packages of the chat protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.domain import errors
from tests.support.node import needs_packages, run_script
from tests.support.servers import Server, ended

pytestmark = needs_packages


def run(server: Server, scenario: str) -> Any:
    """What the published client saw."""
    return run_script("chat.mjs", server.url, scenario)


def contents(lines: list[Any]) -> list[str]:
    return [line["delta"]["content"] for line in lines if "content" in line["delta"]]


def test_get_completion(server: Server) -> None:
    result = run(server, "whole")

    assert result["message"]["content"] == "Yes 漢字"
    assert result["sessionState"] == {"a": [1, None]}
    assert [step["title"] for step in result["context"]["thoughts"]] == [
        "Original user query",
        "Generated search query",
        "Results",
        "Prompt",
    ]


def test_get_streamed_completion(server: Server) -> None:
    result = run(server, "stream")

    assert result[0]["sessionState"] == 7
    assert "data_points" in result[0]["context"]
    assert contents(result) == ["Yes", "漢字"]
    assert result[-1]["context"]["finish_reason"] == "stop"


def test_answer_can_be_sent_back(server: Server) -> None:
    assert run(server, "second turn")["message"]["content"] == "Again"


@pytest.mark.parametrize("scenario", ["bad request", "bad request, streaming"])
def test_rejection_is_thrown_with_its_sentence(server: Server, scenario: str) -> None:
    assert run(server, scenario) == "messages: must not be empty"


@pytest.mark.parametrize("scenario", ["busy", "busy, streaming"])
def test_busy_model_is_thrown_with_its_sentence(server: Server, scenario: str) -> None:
    assert run(server, scenario) == errors.TooManyRequests.default


def test_failure_in_the_stream_is_thrown_with_its_sentence(server: Server) -> None:
    assert run(server, "mid-stream error") == errors.Unavailable.default


def test_abort_closes_the_model_stream(server: Server) -> None:
    result = run(server, "abort")

    assert "abort" in json.dumps(result).lower()
    with server.client() as client:
        assert ended(client, "npm-abort") == "closed"


def test_image_upload(server: Server) -> None:
    result = run(server, "File")
    prompt = json.loads(result["context"]["thoughts"][3]["description"][-1])

    assert result["message"]["content"] == "seen"
    assert prompt["images"] == 1


def test_image_upload_with_a_stream(server: Server) -> None:
    result = run(server, "Blob")
    prompt = json.loads(result[0]["context"]["thoughts"][3]["description"][-1])

    assert contents(result) == ["seen"]
    assert prompt["images"] == 1


def test_file_that_is_not_an_image_is_rejected(server: Server) -> None:
    message = "messages[0].files[0]: must be an image (png, jpeg, gif or webp)"

    assert run(server, "a text as a file") == message


def test_ndjson_readablestream_reads_every_stream(server: Server) -> None:
    ages = ("001", "000", "004", "input")
    current, apps, rag, newest = (run(server, f"ndjson {age}") for age in ages)

    assert contents(current) == ["Yes", "漢字"]
    assert apps[0]["session_state"] == 1
    assert [line["choices"][0]["delta"].get("content") for line in rag] == [None, "Yes", None]
    assert [line.get("delta") for line in newest] == [None, "Yes", None]
    assert run(server, "ndjson error")[-1] == {"error": errors.Unavailable.default}
