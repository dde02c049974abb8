"""The service of AOG, over a real model."""

from __future__ import annotations

import json

from tests.support.model.app import QUESTION, post
from tests.support.servers import Server, asking

SERVICE = "/aog/v0.2/services/chat"


def test_whole_answer(app: Server) -> None:
    answer = post(app, SERVICE, asking(QUESTION)).json()

    assert answer["message"]["content"]
    assert answer["finished"] is True
    assert answer["finish_reason"] in ("stop", "length")


def test_streamed_answer(app: Server) -> None:
    lines = post(app, SERVICE, asking(QUESTION, stream=True)).text.split("\n\n")
    *events, last = [json.loads(line.removeprefix("data: ")) for line in lines if line]

    assert "".join(event["message"]["content"] for event in events)
    assert not any(event["finished"] for event in events)
    assert last["finished"] is True
    assert last["finish_reason"] in ("stop", "length")
