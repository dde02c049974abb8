"""Each protocol to the letter: the golden files in a folder for each protocol."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from shared.protocols.ai_chat.routes import AiChatConfig
from shared.protocols.exchange import App
from tests.support.calls import JSON, ask, call, local_service, read_events
from tests.support.fakes import make_rag
from tests.support.golden import CONFIGS
from tests.support.servers import ROOT

GOLDEN = ROOT / "tests" / "support" / "golden"
CASES = [
    pytest.param(json.loads(line), id=f"{path.stem}: {json.loads(line)['name']}")
    for path in sorted(GOLDEN.rglob("*.jsonl"))
    for line in path.read_text("utf-8").split("\n")
    if line
]
# Those that the OpenAPI document shows.
CASES += [
    pytest.param(case, id=f"{path.parent.name}: {case['name']}")
    for path in sorted((ROOT / "shared" / "protocols").rglob("examples.json"))
    for case in json.loads(path.read_text("utf-8"))
]


def without_time(value: Any) -> Any:
    """The time is the clock's: its form is checked, then it is set to the golden files' value."""
    if isinstance(value, dict) and isinstance(value.get("response"), dict):
        return {**value, "response": without_time(value["response"])}
    if isinstance(value, dict) and isinstance(value.get("created_at"), int):
        completed = 1706301587 if isinstance(value["completed_at"], int) else None
        return {**value, "created_at": 1706301586, "completed_at": completed}
    if isinstance(value, dict) and "created_at" in value:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value["created_at"])
        return {**value, "created_at": "2024-01-27T00:00:00Z"}
    if isinstance(value, dict) and "created" in value:
        assert isinstance(value["created"], int)
        return {**value, "created": 1706301586}
    return value


def answer_to(case: dict[str, Any], service: App | None = None) -> Any:
    """The answer to a golden file's request: JSON, or a list of it for a stream."""
    headers = JSON | case.get("headers", {})
    request = call(case["route"], case["request"], headers, path=case.get("path", ""))
    service = service or local_service(make_rag())
    answers = AiChatConfig(case.get("chat_answers", "message"))
    got = ask(request, replace(service, configs=(*CONFIGS, answers)))

    assert got.status == case.get("status", 200)
    if case.get("done"):
        assert got.data.endswith(b"\n\ndata: [DONE]\n\n")
        got = replace(got, data=got.data.removesuffix(b"data: [DONE]\n\n"))
    if "answer" in case:
        return without_time(got.json)
    return [without_time(line) for line in (read_events(got) if "events" in case else got.lines)]


def golden_answer(case: dict[str, Any]) -> Any:
    """The answer in a golden file."""
    (key,) = case.keys() & {"answer", "lines", "events"}
    return case[key]


def without_thoughts(value: Any) -> Any:
    """The same JSON without any key `thoughts`."""
    if isinstance(value, list):
        return [without_thoughts(each) for each in value]
    if isinstance(value, dict):
        return {k: without_thoughts(each) for k, each in value.items() if k != "thoughts"}
    return value


@pytest.mark.parametrize("case", CASES)
def test_an_answer_is_what_the_golden_file_says(case: dict[str, Any]) -> None:
    assert answer_to(case) == golden_answer(case)


@pytest.mark.parametrize("case", CASES)
def test_thoughts_off_leaves_thoughts_out_of_every_protocol(case: dict[str, Any]) -> None:
    service = local_service(replace(make_rag(), thoughts=False))

    assert answer_to(case, service) == without_thoughts(golden_answer(case))
