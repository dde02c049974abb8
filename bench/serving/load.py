"""Sends questions, many at once, and checks and times the answers. A process of its own.

It reads a job as a line of JSON, and prints the figures as another.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bench.serving.processes import cpu_seconds

STAMP = re.compile(rb" t(\d{8})")
END = b"\r\n0\r\n\r\n"


@dataclass(slots=True)
class Answer:
    """One answer: its times in milliseconds after its question, and its bytes."""

    body: list[bytes] = field(default_factory=list)
    first_line: float = 0
    first_token: float = 0
    last: float = 0
    token_delays: list[float] = field(default_factory=list)


class Client(asyncio.Protocol):
    """One connection: questions, one after the other."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.transport: Any = None
        self.answer, self.done = Answer(), asyncio.get_running_loop().create_future()
        self.start = 0.0
        self.rest = self.tail = b""  # of what came: after the last line feed, and at the end

    def connection_made(self, transport: Any) -> None:
        """Remember the transport."""
        self.transport = transport

    async def ask(self) -> Answer:
        """Send the question, and return its answer."""
        self.answer, self.done = Answer(), asyncio.get_running_loop().create_future()
        self.rest = self.tail = b""
        self.start = time.monotonic()
        self.transport.write(self.request)
        await self.done
        return self.answer

    def data_received(self, data: bytes) -> None:
        """Time what has come."""
        now = time.monotonic()
        answer = self.answer
        answer.body.append(data)
        passed = (now - self.start) * 1000
        data = self.rest + data
        if not answer.first_line and b"{" in data:
            answer.first_line = passed
        whole, _, self.rest = data.rpartition(b"\n")
        for sent in STAMP.findall(whole):
            answer.first_token = answer.first_token or passed
            answer.token_delays.append((int(now * 1e6) - int(sent)) % 10**8 / 1000)
        self.tail = (self.tail + data)[-len(END) :]
        if is_complete(answer.body, self.tail):
            answer.last = passed
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the question that has no answer yet."""
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"the server closed the connection: {error}"))


def is_complete(parts: list[bytes], end: bytes) -> bool:
    """Whether a response has ended: by its last chunk, or by its length."""
    if end == END:
        return True
    head, found, body = parts[0].partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head) if found else None
    return length is not None and len(body) + sum(map(len, parts[1:])) >= int(length[1])


def check(answer: Answer, tokens: int) -> None:
    """Raise ValueError for an answer that is not whole."""
    text = b"".join(answer.body)
    stamps = len(STAMP.findall(text))
    if not text.startswith(b"HTTP/1.1 200") or stamps != tokens:
        raise ValueError(f"an answer with {stamps} of {tokens} tokens: {text[:2000]!r}")


def percentiles(values: list[float]) -> dict[str, float] | None:
    """The median and the 99th percentile."""
    if not values:
        return None
    return {
        "p50": round(statistics.median(values), 3),
        "p99": round(sorted(values)[int(len(values) * 0.99)], 3),
    }


async def run(job: dict[str, Any]) -> dict[str, Any]:
    """The figures of a job: `answers` questions, `at_once`, after some to warm up."""
    url = urlsplit(job["url"])
    body = json.dumps(job["body"]).encode()
    head = f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: Client(request), url.hostname, url.port))[1]
        for _ in range(job["at_once"])
    ]

    async def ask(count: int) -> list[Answer]:
        left, answers = iter(range(count)), []

        async def keep_asking(client: Client) -> None:
            for _ in left:
                answers.append(await client.ask())

        await asyncio.gather(*map(keep_asking, clients))
        for answer in answers:
            check(answer, job["tokens"])
        return answers

    await ask(job["warm_up"])
    cpu, start = cpu_seconds(job["pid"]), time.monotonic()
    answers = await ask(job["answers"])
    seconds, cpu = time.monotonic() - start, cpu_seconds(job["pid"]) - cpu
    for client in clients:
        client.transport.close()
    return {
        "cpu_ms": cpu / len(answers) * 1000,
        "per_second": len(answers) / seconds,
        "first_line_ms": percentiles([answer.first_line for answer in answers]),
        "first_token_ms": percentiles([answer.first_token for answer in answers]),
        "last_ms": percentiles([answer.last for answer in answers]),
        "token_delay_ms": percentiles([it for answer in answers for it in answer.token_delays]),
        "bytes": sum(len(part) for answer in answers for part in answer.body) / len(answers),
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)
