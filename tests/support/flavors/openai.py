"""Chat completions, as a provider has them."""

from __future__ import annotations

from tests.support.upstream import (
    RecordedRequest,
    Step,
    Upstream,
    answer_events,
    json_response,
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
