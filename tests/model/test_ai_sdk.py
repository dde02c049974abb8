"""The AI SDK's UI message stream over a real model."""

from __future__ import annotations

import json

from tests.support.model.app import QUESTION, post
from tests.support.servers import Server


def test_answer_is_a_stream_of_one_message(app: Server) -> None:
    message = {"role": "user", "parts": [{"type": "text", "text": QUESTION}]}
    response = post(app, "/api/chat", {"messages": [message]})
    *lines, end = response.text.removesuffix("\n\n").split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    kinds = [event["type"] for event in events]

    assert (response.status_code, end) == (200, "data: [DONE]")
    assert (kinds[0], kinds[-1]) == ("start", "finish")
    assert "".join(event.get("delta", "") for event in events)
    assert kinds.index("source-url") < kinds.index("text-start") < kinds.index("text-end")
    assert events[-1]["finishReason"] in ("stop", "length")
    assert 0 < events[-1]["messageMetadata"]["usage"]["outputTokens"] <= 24
