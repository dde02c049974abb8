"""Chat completions, as a provider has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.support.upstream import (
    ENDLESS_CALL,
    STOP,
    WORDS,
    RecordedRequest,
    Step,
    Upstream,
    answer_events,
    chunk,
    json_response,
    sse_event,
    stream_response,
)

PATH = "/v1/chat/completions"
HEALTH_PATH = "/v1/models"


class Server(Upstream):
    """Chat completions, also whole, with every parameter that they have."""

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        return None

    def respond(self, request: RecordedRequest) -> list[Step]:
        if not request.path.partition("?")[0].endswith("/chat/completions"):
            return super().respond(request)
        if not request.body.get("stream"):
            answer = {"role": "assistant", "content": "Remote [a.md]."}
            choice = {"index": 0, "message": answer, "finish_reason": "stop"}
            return json_response({"id": "1", "model": "gpt-4o", "choices": [choice]})
        return stream_response(answer_events("Remote ", "[a.md]."))


def _delta(**fields: Any) -> bytes:
    return sse_event(chunk(delta=fields))


ENDLESS: Mapping[str, Callable[[int], bytes]] = {
    "text": lambda _: _delta(content=WORDS),
    "refusal": lambda _: _delta(refusal=WORDS),
    "arguments": lambda _: _delta(tool_calls=[ENDLESS_CALL]),
    "reasoning": lambda _: _delta(reasoning_content=WORDS),
    "fields with text": lambda n: sse_event({**chunk("Hi"), f"x{n}": WORDS}),
    "fields without text": lambda n: sse_event({**chunk(), f"x{n}": WORDS}),
}
"""By what has no end: the event of a number."""


def end(events: Iterable[bytes]) -> list[Step]:
    """A stream of these events that ends as an answer does."""
    return stream_response([*events, sse_event(STOP)])
