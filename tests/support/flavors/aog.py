"""A fake AOG gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.support import upstream
from tests.support.upstream import (
    ENDLESS_CALL,
    WORDS,
    RecordedRequest,
    Step,
    json_response,
    sse_event,
    stream_response,
)

AOG_FLAVOR = "aog"
PATH = "/aog/v0.2/services/chat"
HEALTH_PATH = "/aog/v0.2/service"


def aog_event(content: str = "", **more: Any) -> bytes:
    """An event of an AOG gateway."""
    frame = {"id": "7", "model": "deepseek-r1:7b", "created_at": "2026-01-02T03:04:05Z"}
    message = {"role": "assistant", "content": content}
    return sse_event({**frame, "finished": False, "message": message, **more})


class Server(upstream.Server):
    """Another AOG gateway."""

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        if request.method != "POST" or isinstance(request.body.get("messages"), list):
            return None
        return json_response({"business_code": 40003, "message": "messages"}, 400)

    def respond(self, request: RecordedRequest) -> list[Step]:
        if request.method == "GET":
            return json_response({"business_code": 10000, "message": "", "data": []})
        last: dict[str, Any] = {"finished": True, "finish_reason": "stop"}
        if not request.body.get("stream"):
            (one,) = [aog_event("Gateway [a.md].", **last)]
            return json_response(json.loads(one.removeprefix(b"data: ")))
        return stream_response([aog_event("Gateway "), aog_event("[a.md]."), aog_event(**last)])


ENDLESS: Mapping[str, Callable[[int], bytes]] = {
    "text": lambda _: aog_event(WORDS),
    "arguments": lambda _: aog_event(message={"role": "assistant", "tool_calls": [ENDLESS_CALL]}),
    "fields without text": lambda n: aog_event(**{f"x{n}": WORDS}),
}
"""By what has no end: the event of a number."""


def end(events: Iterable[bytes]) -> list[Step]:
    """A stream of these events that ends as an answer does."""
    return stream_response([*events, aog_event(finished=True)])
