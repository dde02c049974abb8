"""A fake server of OpenAI's chat completions on loopback, with every kind of failure.

It is strict: it rejects parameters that the service, or a reasoning model, rejects. It runs in a
thread of its own and records its requests.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

Writer = asyncio.StreamWriter
PARAMETERS = {
    "model",
    "messages",
    "stream",
    "stream_options",
    "temperature",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "top_p",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "verbosity",
}
VECTOR = [0.25, 0.5]
WORDS = "word " * 2000  # a piece of an answer without end, and of a call
ENDLESS_CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": WORDS}}
NOT_FOR_REASONING = {"temperature", "max_tokens", "top_p", "stop"}


@dataclass(frozen=True)
class RecordedRequest:
    """One request as the server received it."""

    path: str
    headers: Mapping[str, str]
    body: Any
    method: str = "POST"


def chunk(content: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk of a stream, as Azure OpenAI writes it."""
    choice = {"index": 0, "delta": {"content": content} if content else {}, "finish_reason": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1706301586,
        "model": "gpt-4o-2024-11-20",
        "system_fingerprint": "fp_1",
        "choices": [{**choice, **more}],
    }


PROMPT_FILTER_CHUNK = {**chunk(), "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
STOP = chunk(finish_reason="stop", content_filter_results={"hate": {"filtered": False}})
USAGE = {**chunk(), "choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3}}


def sse_event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def answer_events(*texts: str) -> list[bytes]:
    """The events of an answer with these deltas."""
    deltas = [sse_event(chunk(text)) for text in texts]
    return [
        sse_event(PROMPT_FILTER_CHUNK),
        *deltas,
        sse_event(STOP),
        sse_event(USAGE),
        b"data: [DONE]\n\n",
    ]


@dataclass(frozen=True)
class ModelApi:
    """The events of an API in streams, for tests that run over both of OpenAI's.

    `name` is its value of CHAT_MODEL_API. `text` is a piece of an answer, `end` the last event by
    its finish reason, `error` a failure, `idle` an event without text.
    """

    name: str
    text: Callable[[str], bytes]
    end: Callable[[str], bytes]
    error: Callable[[Any], bytes]
    answer: Callable[..., list[bytes]]
    idle: bytes


CHAT_COMPLETIONS = ModelApi(
    "chat_completions",
    text=lambda text: sse_event(chunk(text)),
    end=lambda reason: sse_event(chunk(finish_reason=reason)),
    error=lambda error: sse_event({"error": error}),
    answer=answer_events,
    idle=sse_event(PROMPT_FILTER_CHUNK),
)

# One step of what a server does with a request: bytes to send, or something else to do.
Step = bytes | Callable[["Exchange"], Any]


@dataclass
class Exchange:
    """One request being answered."""

    writer: Writer
    released: asyncio.Event

    def reset(self) -> None:
        """Close the connection without a response, as a crash does."""
        self.writer.transport.abort()

    def rst(self) -> None:
        """Cut the connection with a TCP reset, which `reset` leaves to the kernel."""
        no_linger = struct.pack("ii", 1, 0)
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        self.writer.transport.abort()

    async def stall(self) -> None:
        """Send nothing more until the test ends or the client disconnects."""
        await self.released.wait()


def response_head(status: int, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} X", "Transfer-Encoding: chunked"]
    all_headers = {"Content-Type": "text/event-stream", **(headers or {})}
    return "\r\n".join([*lines, *(f"{k}: {v}" for k, v in all_headers.items()), "", ""]).encode()


def http_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream_response(events: Sequence[Step], *, end: bool = True) -> list[Step]:
    """A streamed response: each event in a chunk of its own."""
    steps: list[Step] = [response_head(200)]
    steps += [http_chunk(step) if isinstance(step, bytes) else step for step in events]
    return [*steps, b"0\r\n\r\n"] if end else steps


def json_response(value: Any, status: int = 200) -> list[Step]:
    """A JSON answer."""
    kind = {"Content-Type": "application/json"}
    return [response_head(status, kind), http_chunk(json.dumps(value).encode()), b"0\r\n\r\n"]


def error_response(
    status: int, headers: Mapping[str, str] | None = None, **fields: Any
) -> list[Step]:
    """An error response with its JSON body."""
    body = json.dumps({"error": {"message": "upstream's own words", **fields}}).encode()
    kind = {"Content-Type": "application/json", **(headers or {})}
    return [response_head(status, kind), http_chunk(body), b"0\r\n\r\n"]


@dataclass
class Server:
    """A server: `plan` has the responses of the next requests; after them `respond` makes them.

    `order` has an entry for each request: servers may share it, to record the order of requests.
    """

    plan: list[list[Step]] = field(default_factory=list)
    requests: list[RecordedRequest] = field(default_factory=list)
    order: list[Server] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    url: str = ""

    def next_steps(self, request: RecordedRequest) -> list[Step]:
        if rejection := self.refusal(request):
            return rejection
        return self.plan.pop(0) if self.plan else self.respond(request)

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        """Returns the error response of an invalid request, else None."""
        return error_response(400, code=f"no request of ours: {request.path}")

    def respond(self, request: RecordedRequest) -> list[Step]:
        """Returns the response of a valid request."""
        return json_response({"path": request.path})


class Upstream(Server):
    """Chat completions, embeddings, and the list of models."""

    api = CHAT_COMPLETIONS

    def refusal(self, request: RecordedRequest) -> list[Step] | None:
        return (
            check_parameters(request.body) if request.path.endswith("/chat/completions") else None
        )

    def respond(self, request: RecordedRequest) -> list[Step]:
        if request.path.endswith("/models"):
            return json_response({"object": "list", "data": []})
        if request.path.endswith("/embeddings"):
            in_base64 = request.body.get("encoding_format") == "base64"
            vector = base64.b64encode(struct.pack("<2f", *VECTOR)).decode() if in_base64 else VECTOR
            row = {"object": "embedding", "embedding": vector}
            data = [{**row, "index": index} for index in range(len(request.body["input"]))]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return json_response({"object": "list", "data": data, "model": "e", "usage": usage})
        return stream_response(answer_events("Yes", " [a.md]."))


def check_parameters(body: Any) -> list[Step] | None:
    """Returns the error response of a body that the service would reject, else None."""
    unknown = sorted(body.keys() - PARAMETERS)
    if str(body.get("model", "")).startswith(("o3", "gpt-5", "gpt-6")):
        unknown += sorted(body.keys() & NOT_FOR_REASONING)
    elif "reasoning_effort" in body:
        unknown.append("reasoning_effort")
    if unknown:
        return error_response(400, code="unsupported_parameter", param=unknown[0])
    for place, message in enumerate(body.get("messages", ())):
        if message["role"] == "tool" and not message.get("tool_call_id"):
            return error_response(
                400, code="invalid_value", param=f"messages.[{place}].tool_call_id"
            )
    return None


@contextmanager
def run_upstream(server: Server | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Any]:
    """Run a server until the block ends."""
    server = server or Upstream()
    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()

    async def run() -> None:
        async with listen(server, stop, tls) as address:
            server.url = f"{'https' if tls else 'http'}://{address}"
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@asynccontextmanager
async def listen(
    server: Server, stop: asyncio.Event, tls: ssl.SSLContext | None
) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
        if task := asyncio.current_task():
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        server.connections += 1
        server.open_connections += 1
        try:
            while await handle_request(server, reader, writer, stop):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # Python 3.11 logs a handler that was cancelled with a traceback
        finally:
            server.open_connections -= 1
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    host, port = listener.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        listener.close()
        open_tasks = list(tasks)  # clients that keep their connections for later
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)


def parse_body(headers: Mapping[str, str], body: bytes) -> Any:
    """The JSON of a body, the fields of a form, or the bytes of what goes to a storage account."""
    if headers.get("content-type") == "application/x-www-form-urlencoded":
        return dict(parse_qsl(body.decode(), strict_parsing=True))
    if headers.get("content-type") in ("application/xml", "application/octet-stream"):
        return body
    return json.loads(body) if body else None


async def handle_request(
    server: Server, reader: asyncio.StreamReader, writer: Writer, stop: asyncio.Event
) -> bool:
    """Read a request and answer it. Returns whether the connection can be reused."""
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = start.split()
    request = RecordedRequest(path, headers, parse_body(headers, body), method)
    server.requests.append(request)
    server.order.append(server)
    gone = asyncio.ensure_future(reader.read(1))
    responding = asyncio.ensure_future(perform(server.next_steps(request), Exchange(writer, stop)))
    try:
        await asyncio.wait({gone, responding}, return_when=asyncio.FIRST_COMPLETED)
        if not responding.done():  # the client has gone
            return False
        gone.cancel()
        await asyncio.wait({gone})
        await responding
        return not writer.is_closing() and gone.cancelled()
    finally:
        for task in (gone, responding):
            task.cancel()
        await asyncio.wait({gone, responding})


async def perform(steps: Sequence[Step], running: Exchange) -> None:
    for step in steps:
        if isinstance(step, bytes):
            running.writer.write(step)
            await running.writer.drain()
        elif asyncio.iscoroutine(result := step(running)):
            await result
