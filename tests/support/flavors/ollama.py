"""A fake server of Ollama's own API: it rejects what the real one rejects."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.support import upstream
from tests.support.upstream import (
    ENDLESS_CALL,
    WORDS,
    RecordedRequest,
    Step,
    http_chunk,
    json_response,
    response_head,
)

OLLAMA_FLAVOR = "ollama"
PATH = "/api/chat"
HEALTH_PATH = "/api/tags"


def ollama_line(**fields: Any) -> bytes:
    """A line of an Ollama stream."""
    defaults = {"model": "qwen3:8b", "created_at": "2026-01-02T03:04:05.678Z", "done": False}
    return json.dumps(defaults | fields).encode() + b"\n"


def message(content: str = "", **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **more}}


LAST_LINE = {
    **message(),
    "done": True,
    "done_reason": "stop",
    "total_duration": 5191566416,
    "prompt_eval_count": 26,
    "eval_count": 298,
}


def ollama_stream(*steps: bytes | Step) -> list[Step]:
    """An Ollama stream."""
    kind = {"Content-Type": "application/x-ndjson"}
    pieces: list[Step] = [http_chunk(step) if isinstance(step, bytes) else step for step in steps]
    return [response_head(200, kind), *pieces, b"0\r\n\r\n"]


class Server(upstream.Server):
    """Ollama's `/api/chat` and `/api/tags`."""

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        """The error of its decoder for a field of another type."""
        problem = undecodable_field(request.body) if request.path.endswith("/api/chat") else None
        return (
            json_response({"error": f"json: cannot unmarshal {problem}"}, 400) if problem else None
        )

    def respond(self, request: RecordedRequest) -> list[Step]:
        if request.path.endswith("/api/tags"):
            return json_response({"models": []})
        if not request.body["stream"]:
            return json_response(json.loads(ollama_line(**LAST_LINE | message("Local [a.md]."))))
        return ollama_stream(
            ollama_line(**message("Local ")),
            ollama_line(**message("[a.md].")),
            ollama_line(**LAST_LINE),
        )


def undecodable_field(body: Any) -> str | None:
    """The first field that Ollama cannot decode."""
    if not isinstance(body.get("options", {}), dict):
        return "options"
    if not isinstance(body.get("options", {}).get("stop", []), list):
        return "options.stop"
    for entry in body["messages"]:
        if not isinstance(entry.get("content", ""), str):
            return "content"
        for each in entry.get("tool_calls", ()):
            if not isinstance(each["function"]["arguments"], dict):
                return "string into Go struct field ToolCallFunction.arguments"
        for image in entry.get("images", ()):
            base64.b64decode(image, validate=True)
    return None


ENDLESS: Mapping[str, Callable[[int], bytes]] = {
    "text": lambda _: ollama_line(**message(WORDS)),
    "arguments": lambda _: ollama_line(**message(tool_calls=[ENDLESS_CALL])),
    "reasoning": lambda _: ollama_line(**message(thinking=WORDS)),
}
"""By what has no end: the event of a number."""


def end(events: Iterable[bytes]) -> list[Step]:
    """A stream of these events that ends as an answer does."""
    return ollama_stream(*events, ollama_line(**LAST_LINE))
