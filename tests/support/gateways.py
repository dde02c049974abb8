"""Fake servers of the other flavors, Ollama's own API and an AOG gateway, and calls to the app.

Both are strict: they reject what the real servers reject.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shared.app import handle_call
from shared.bootstrap.build import build
from shared.http.call import Call
from shared.protocols.exchange import App
from shared.settings import read_settings
from tests.support.calls import JSON, BufferedReply, call
from tests.support.calls import read as read_reply
from tests.support.responses_upstream import ResponsesUpstream
from tests.support.servers import LAPTOP, SAMPLES
from tests.support.upstream import (
    RecordedRequest,
    Server,
    Step,
    Upstream,
    answer_events,
    http_chunk,
    json_response,
    response_head,
    run_upstream,
    sse_event,
    stream_response,
)

TIMEOUT = 60.0  # seconds; only a hang takes so long
CHAT = "/aog/v0.2/services/{service}"
SHIRT_CONVERSATION = [
    {
        "role": "system",
        "content": "You are a helpful assistant can do function call and your team is Tom",
    },
    {"role": "user", "content": "Hello. What's your name?"},
    {"role": "assistant", "content": "Hello. My name is Tom."},
    {"role": "user", "content": "I am looking for some shirts"},
    {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "call_BEGxtsoiM96M78Y97RFxPRYk",
                "type": "function",
                "function": {"name": "search", "arguments": "{'query':'shirts'}"},
            }
        ],
    },
    {
        "tool_call_id": "call_BEGxtsoiM96M78Y97RFxPRYk",
        "role": "tool",
        "name": "search",
        "content": "['shirt1', 'shirt2', 'shirt3']",
    },
    {
        "role": "assistant",
        "content": "I found some options for shirts:\n\n1. Shirt 1\n2. Shirt 2\n3. Shirt 3\n\n"
        "Would you like more details on any of these?",
    },
]
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {
                    "type": "string",
                    "description": "The city and state, e.g. San Francisco, CA",
                },
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["location"],
        },
    },
}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(12)).decode()
PNG_URL = f"data:image/png;base64,{PNG}"


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


class Ollama(Server):
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


def aog_event(content: str = "", **more: Any) -> bytes:
    """An event of an AOG gateway."""
    frame = {"id": "7", "model": "deepseek-r1:7b", "created_at": "2026-01-02T03:04:05Z"}
    return sse_event({**frame, "finished": False, **message(content), **more})


class Gateway(Server):
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


class OpenAI(Upstream):
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


class Responses(ResponsesUpstream):
    """The Responses API."""

    texts = ("Remote ", "[a.md].")


PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
    "aog": "/aog/v0.2/services/chat",
}
SERVERS: Mapping[str, type[Server]] = {
    "openai": OpenAI,
    "responses": Responses,
    "ollama": Ollama,
    "aog": Gateway,
}
REMOTE = {"service_source": "remote"}


def provider_entry(flavor: str, server: Server, **more: Any) -> dict[str, Any]:
    """An available provider of the list, named by its flavor, with one model."""
    defaults = {
        "provider_name": flavor,
        "service_name": "chat",
        "url": server.url + PATHS[flavor],
        "flavor": flavor,
        "status": 1,
        "models": ["m"],
    }
    return defaults | more


def provider_settings(*entries: Mapping[str, Any], **more: str) -> dict[str, str]:
    """Settings with a list of providers."""
    return {**SAMPLES, "MODEL_PROVIDERS": json.dumps(entries), **more}


@contextmanager
def run_gateways(*flavors: str) -> Iterator[list[Any]]:
    """Runs a server of each flavor; they share one list of requests in order."""
    if not flavors:
        yield []
        return
    with run_upstream(SERVERS[flavors[0]]()) as first, run_gateways(*flavors[1:]) as rest:
        first.order = rest[0].order if rest else first.order
        yield [first, *rest]


def aog_call(body: Any, headers: Mapping[str, str] = JSON, **more: Any) -> Call:
    """A call of the AOG chat service."""
    return call(CHAT, body, headers, **{"path": "chat", **more})


def run_calls(settings: Mapping[str, str], *calls: Call) -> list[BufferedReply]:
    """Returns the replies of an app with these settings, called in sequence."""

    async def go() -> list[BufferedReply]:
        service = build(read_settings({**LAPTOP, **settings}))
        try:
            async with asyncio.timeout(TIMEOUT):
                return [await read_reply(await handle_call(service, each)) for each in calls]
        finally:
            await close_models(service)

    return asyncio.run(go())


async def close_models(service: App) -> None:
    """Close the clients of a service's models."""
    assert service.rag is not None
    for provider in service.rag.models.providers:
        client = getattr(provider.get_model(None), "client", None)
        if client is not None:
            await client.close()


def read_events(reply: BufferedReply) -> list[Any]:
    """The events of a stream. The data of each must be one line; a name must be its type."""
    assert reply.media_type == "text/event-stream"
    assert reply.data.endswith(b"\n\n")
    events = []
    for part in reply.data[:-2].split(b"\n\n"):
        *name, data = part.split(b"\n")
        assert data.startswith(b"data: ")
        events.append(json.loads(data[6:]))
        assert name in ([], [b"event: " + str(events[-1].get("type")).encode()])
    return events


def read_text(reply: BufferedReply) -> str:
    """The answer's text in a reply, whole or streamed."""
    objects = read_events(reply) if reply.media_type == "text/event-stream" else [reply.json]
    return "".join(each["message"]["content"] for each in objects)
