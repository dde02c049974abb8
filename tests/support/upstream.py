"""A small server that speaks OpenAI's chat completions on loopback, and every way it can fail.

It is strict: a parameter that the service does not know, or that a reasoning model refuses, is
refused as the service would. It runs in a thread of its own and remembers what it was sent.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

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
    "top_p",
    "stop",
}
NOT_FOR_REASONING = {"temperature", "max_tokens", "top_p", "stop"}


@dataclass(frozen=True)
class RecordedRequest:
    """One request as it arrived."""

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
    """The events of an answer in these pieces."""
    said = [sse_event(chunk(text)) for text in texts]
    return [
        sse_event(PROMPT_FILTER_CHUNK),
        *said,
        sse_event(STOP),
        sse_event(USAGE),
        b"data: [DONE]\n\n",
    ]


# One step of what a server does with a request: bytes to send, or something else to do.
Step = bytes | Callable[["Exchange"], Any]


@dataclass
class Exchange:
    """One request being answered."""

    writer: Writer
    released: asyncio.Event

    def reset(self) -> None:
        """Cut the connection as a crash does."""
        self.writer.transport.abort()

    def rst(self) -> None:
        """Cut the connection with a TCP reset, which `reset` leaves to the kernel."""
        no_linger = struct.pack("ii", 1, 0)
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        self.writer.transport.abort()

    async def stall(self) -> None:
        """Say nothing more until the test ends, or the client goes."""
        await self.released.wait()


def response_head(status: int, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} X", "Transfer-Encoding: chunked"]
    named = {"Content-Type": "text/event-stream", **(headers or {})}
    return "\r\n".join([*lines, *(f"{k}: {v}" for k, v in named.items()), "", ""]).encode()


def http_chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream_response(events: Sequence[Step], *, end: bool = True) -> list[Step]:
    """A streamed answer: its events, each in a piece of its own."""
    steps: list[Step] = [response_head(200)]
    steps += [http_chunk(step) if isinstance(step, bytes) else step for step in events]
    return [*steps, b"0\r\n\r\n"] if end else steps


def json_response(value: Any, status: int = 200) -> list[Step]:
    """A JSON answer."""
    kind = {"Content-Type": "application/json"}
    return [response_head(status, kind), http_chunk(json.dumps(value).encode()), b"0\r\n\r\n"]


def error_response(
    status: int, headers: Mapping[str, str] | None = None, **said: Any
) -> list[Step]:
    """A refusal with its JSON body."""
    body = json.dumps({"error": {"message": "upstream's own words", **said}}).encode()
    kind = {"Content-Type": "application/json", **(headers or {})}
    return [response_head(status, kind), http_chunk(body), b"0\r\n\r\n"]


@dataclass
class Server:
    """A server: `plan` says what the next requests get, its own answer where it is empty.

    `order` has an entry for each request: servers that share it show who was asked when.
    """

    plan: list[list[Step]] = field(default_factory=list)
    requests: list[RecordedRequest] = field(default_factory=list)
    order: list[Server] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    url: str = ""

    def next_steps(self, asked: RecordedRequest) -> list[Step]:
        if refused := self.refusal(asked):
            return refused
        return self.plan.pop(0) if self.plan else self.respond(asked)

    def refusal(self, asked: RecordedRequest) -> list[Step] | None:
        """What the service would say to a request that is wrong."""
        return error_response(400, code=f"no request of ours: {asked.path}")

    def respond(self, asked: RecordedRequest) -> list[Step]:
        """What it says to one that is right."""
        return json_response({"path": asked.path})


class Upstream(Server):
    """Chat completions, embeddings, and the list of models."""

    def refusal(self, asked: RecordedRequest) -> list[Step] | None:
        return check_parameters(asked.body) if asked.path.endswith("/chat/completions") else None

    def respond(self, asked: RecordedRequest) -> list[Step]:
        if asked.path.endswith("/models"):
            return json_response({"object": "list", "data": []})
        if asked.path.endswith("/embeddings"):
            vector = {"object": "embedding", "embedding": [0.25, 0.5]}
            data = [{**vector, "index": index} for index in range(len(asked.body["input"]))]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return json_response({"object": "list", "data": data, "model": "e", "usage": usage})
        return stream_response(answer_events("Yes", " [a.md]."))


def check_parameters(body: Any) -> list[Step] | None:
    """The refusal of a body that the service would refuse."""
    unknown = sorted(body.keys() - PARAMETERS)
    if str(body.get("model", "")).startswith(("o3", "gpt-5")):
        unknown += sorted(body.keys() & NOT_FOR_REASONING)
    elif "reasoning_effort" in body:
        unknown.append("reasoning_effort")
    if unknown:
        return error_response(400, code="unsupported_parameter", param=unknown[0])
    for place, said in enumerate(body.get("messages", ())):
        if said["role"] == "tool" and not said.get("tool_call_id"):
            return error_response(
                400, code="invalid_value", param=f"messages.[{place}].tool_call_id"
            )
    return None


@contextmanager
def run_upstream(made: Server | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Any]:
    """Run a server until the block ends."""
    made = made or Upstream()
    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()

    async def run() -> None:
        async with listen(made, stop, tls) as address:
            made.url = f"{'https' if tls else 'http'}://{address}"
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@asynccontextmanager
async def listen(
    made: Server, stop: asyncio.Event, tls: ssl.SSLContext | None
) -> AsyncIterator[str]:
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
        if task := asyncio.current_task():
            serving.add(task)
            task.add_done_callback(serving.discard)
        made.connections += 1
        made.open_connections += 1
        try:
            while await exchange(made, reader, writer, stop):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            made.open_connections -= 1
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        left = list(serving)  # clients that keep their connections for later
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def exchange(
    made: Server, reader: asyncio.StreamReader, writer: Writer, stop: asyncio.Event
) -> bool:
    """Read a request and answer it; whether the connection can be used again."""
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
    sent = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = start.split()
    asked = RecordedRequest(path, headers, json.loads(sent) if sent else None, method)
    made.requests.append(asked)
    made.order.append(made)
    gone = asyncio.ensure_future(reader.read(1))
    working = asyncio.ensure_future(perform(made.next_steps(asked), Exchange(writer, stop)))
    try:
        await asyncio.wait({gone, working}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():  # the client has gone
            return False
        gone.cancel()
        await asyncio.wait({gone})
        await working
        return not writer.is_closing() and gone.cancelled()
    finally:
        for task in (gone, working):
            task.cancel()
        await asyncio.wait({gone, working})


async def perform(steps: Sequence[Step], going: Exchange) -> None:
    for step in steps:
        if isinstance(step, bytes):
            going.writer.write(step)
            await going.writer.drain()
        elif asyncio.iscoroutine(result := step(going)):
            await result
