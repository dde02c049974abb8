"""A real model that the app calls by the Responses API."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.model.app import QUESTION, open_stream, post
from tests.support.servers import Server, asking


@pytest.fixture
def app(kind: str, start: Callable[..., Server]) -> Server:
    return start(kind, MAX_ANSWER_TOKENS="24", CHAT_MODEL_API="responses")


def test_whole_answer(app: Server) -> None:
    response = post(app, "/chat", asking(QUESTION))
    answer = response.json()

    assert response.status_code == 200, response.text
    assert answer["message"]["content"]
    assert 0 < answer["context"]["usage"]["completion_tokens"] <= 24


def test_streamed_answer(app: Server) -> None:
    with open_stream(app) as lines:
        _, *rest, last = lines

    assert "".join(line["delta"]["content"] for line in rest)
    assert last["context"]["finish_reason"] in ("stop", "length")
