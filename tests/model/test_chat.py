"""`/chat` and `/chat/stream` over a real model, its limits and its faults."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.support.model.app import QUESTION, open_stream, post, settings
from tests.support.model.llama_server import (
    SECONDS,
    is_generating,
    is_ready,
    run_llama_server,
    wait_until,
)
from tests.support.servers import Server, asking, run_server

Start = Callable[..., Server]


def check_context(context: Any) -> None:
    """Check what holds for the context of each answer."""
    data_points = context["data_points"]
    assert context["finish_reason"] in ("stop", "length")
    assert 0 < context["usage"]["completion_tokens"] <= 24
    assert context["usage"]["prompt_tokens"] > 500  # the passages are in the prompt
    assert {*data_points["citations"]} == {text.split(":")[0] for text in data_points["text"]}


def test_health_names_the_model(app: Server) -> None:
    health = httpx.get(f"{app.url}/health", timeout=SECONDS, trust_env=False).json()

    assert (health["status"], health["model"]) == ("ok", "local")


def test_whole_answer(app: Server) -> None:
    response = post(app, "/chat", asking(QUESTION))
    answer = response.json()

    assert response.status_code == 200, response.text
    assert answer["message"]["content"]
    check_context(answer["context"])


def test_streamed_answer(app: Server) -> None:
    with open_stream(app) as lines:
        first, *rest, last = lines

    assert "".join(line["delta"]["content"] for line in rest)
    check_context(first["context"] | last["context"])


def test_question_with_a_history(app: Server) -> None:
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "$100."},
        {"role": "user", "content": "And in Northwind Standard?"},
    ]
    answer = post(app, "/chat", {"messages": messages}).json()
    steps = {step["title"]: step["description"] for step in answer["context"]["thoughts"]}

    assert answer["message"]["content"]
    assert steps["Original user query"] == "And in Northwind Standard?"
    assert steps["Generated search query"]  # the model's, or the question if that is no query


def test_follow_up_questions_are_not_in_the_text(app: Server) -> None:
    overrides = {"suggest_followup_questions": True}
    answer = post(app, "/chat", asking(QUESTION, context={"overrides": overrides})).json()

    assert answer["message"]["content"]
    assert "<<" not in answer["message"]["content"]
    assert isinstance(answer["context"]["followup_questions"], list)


def test_prompt_beyond_the_models_context(kind: str, start: Start) -> None:
    server = start(kind, MAX_PROMPT_TOKENS="16000")
    long = "The plan covers the costs of a stay in hospital. " * 600
    whole = post(server, "/chat", asking(f"{long} {QUESTION}"))
    streamed = post(server, "/chat/stream", asking(f"{long} {QUESTION}"))

    for response in (whole, streamed):
        assert response.status_code == 400, response.text
        assert "too long" in response.json()["error"]
    assert "MAX_PROMPT_TOKENS" in server.log


def test_long_history_is_cut_to_the_models_context(kind: str, start: Start) -> None:
    server = start(kind, MAX_ANSWER_TOKENS="24")
    turn = "Eine längere Antwort über Zuzahlungen im Krankenhaus, 1.250,75 $ je Aufenthalt. " * 20
    messages = [{"role": ("user", "assistant")[n % 2], "content": turn} for n in range(30)]
    messages.append({"role": "user", "content": QUESTION})
    response = post(server, "/chat", {"messages": messages})

    assert response.status_code == 200, response.text
    assert response.json()["context"]["usage"]["prompt_tokens"] <= 4096


def test_eight_questions_at_once(app: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: post(app, "/chat", asking(QUESTION)), range(8)))

    assert [response.status_code for response in responses] == [200] * 8
    assert all(response.json()["message"]["content"] for response in responses)


def test_model_stops_when_the_client_leaves(kind: str, start: Start, llama: Server) -> None:
    with open_stream(start(kind, MAX_ANSWER_TOKENS="1000")) as lines:
        for _ in range(3):
            next(lines)
        was_generating = is_generating(llama)

    assert was_generating
    assert wait_until(lambda: not is_generating(llama), 10)  # the rest of the answer takes longer


def test_model_that_is_killed(kind: str, tmp_path: Path) -> None:
    with run_llama_server(tmp_path) as llama:
        more = {**settings(llama), "MAX_ANSWER_TOKENS": "1000"}
        with run_server(kind, tmp_path, more) as server:
            with open_stream(server) as lines:
                for _ in range(3):
                    next(lines)
                os.kill(llama.pid, signal.SIGKILL)
                *_, last = lines
            later = post(server, "/chat", asking(QUESTION))

    assert "error" in last
    assert later.status_code == 503, later.text


def test_model_that_is_still_loading(kind: str, tmp_path: Path) -> None:
    statuses: list[int] = []
    with (
        run_llama_server(tmp_path, wait=False) as llama,
        run_server(kind, tmp_path, {**settings(llama), "MAX_ANSWER_TOKENS": "24"}) as server,
    ):
        while not is_ready(llama):
            statuses.append(post(server, "/chat", asking(QUESTION)).status_code)
        final = post(server, "/chat", asking(QUESTION))

    assert set(statuses) <= {200, 503}  # 200 if it was ready while the app waited
    assert final.status_code == 200, final.text
