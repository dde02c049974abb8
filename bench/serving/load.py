"""Sends questions, many at once, and checks and times the answers. A process of its own.

It reads a job as a line of JSON, and prints the figures as another.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from urllib.parse import SplitResult, urlsplit

from bench.serving.processes import cpu_seconds

STAMP = re.compile(rb" t(\d{8})")
SECONDS = 600  # for one job
END = b"\r\n0\r\n\r\n"


@dataclass(slots=True)
class Answer:
    """One answer: its times in milliseconds after its question, and its bytes."""

    body: list[bytes] = field(default_factory=list)
    first_line: float = 0
    first_token: float = 0
    token_delays: list[float] = field(default_factory=list)


class Client(asyncio.Protocol):
    """One connection: questions, one after the other."""

    def __init__(self, host: str, port: int, request: bytes) -> None:
        self.host, self.port, self.request = host, port, request
        self.loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.answer, self.done = Answer(), self.loop.create_future()
        self.start = 0.0
        self.rest = self.tail = b""  # of what came: after the last line feed, and at the end

    async def ask(self) -> Answer:
        """Send the question, and return its answer. Raises ConnectionError.

        A server closes a connection that is idle, if need be when the question is on its way.
        """
        is_new = self.transport is None or self.transport.is_closing()
        if is_new:
            await self.loop.create_connection(lambda: self, self.host, self.port)
        self.answer, self.done = Answer(), self.loop.create_future()
        self.rest = self.tail = b""
        self.start = time.monotonic()
        self.transport.write(self.request)
        try:
            await self.done
        except ConnectionError:
            if is_new or self.answer.body:
                raise
            return await self.ask()
        return self.answer

    def connection_made(self, transport: Any) -> None:
        """Remember the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Time what has come."""
        now = time.monotonic()
        answer = self.answer
        answer.body.append(data)
        self.tail = (self.tail + data)[-len(END) :]
        passed = (now - self.start) * 1000
        data = self.rest + data
        if not answer.first_line and b"{" in data:
            answer.first_line = passed
        whole, _, self.rest = data.rpartition(b"\n")
        for sent in STAMP.findall(whole):
            answer.first_token = answer.first_token or passed
            answer.token_delays.append((int(now * 1e6) - int(sent)) % 10**8 / 1000)
        if is_complete(answer.body, self.tail):
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


def make_request(url: SplitResult, body: Any) -> bytes:
    """The bytes of a question."""
    data = json.dumps(body).encode()
    lines = [
        f"POST {url.path} HTTP/1.1",
        f"Host: {url.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data


async def ask_all(clients: list[Client], count: int, tokens: int) -> list[Answer]:
    """So many answers; each client asks again when it has one. Raises ValueError."""
    left, answers = iter(range(count)), []

    async def keep_asking(client: Client) -> None:
        for _ in left:
            answers.append(await client.ask())

    await asyncio.gather(*map(keep_asking, clients))
    for answer in answers:
        check(answer, tokens)
    return answers


async def run(job: dict[str, Any]) -> dict[str, Any]:
    """The figures of a job: `answers` questions, `at_once`, after some to warm up."""
    url, tokens = urlsplit(job["url"]), job["tokens"]
    request = make_request(url, job["body"])
    clients = [Client(str(url.hostname), url.port or 80, request) for _ in range(job["at_once"])]
    await ask_all(clients, job["warm_up"], tokens)
    cpu, start = cpu_seconds(job["pid"]), time.monotonic()
    answers = await ask_all(clients, job["answers"], tokens)
    seconds, cpu = time.monotonic() - start, cpu_seconds(job["pid"]) - cpu
    for client in clients:
        client.transport.close()
    return {
        "cpu_ms": cpu / len(answers) * 1000,
        "per_second": len(answers) / seconds,
        "bytes": sum(len(part) for answer in answers for part in answer.body) / len(answers),
        **(times(answers, *job["waits_ms"]) if job["waits_ms"][1] else {}),
    }


def times(answers: list[Answer], line: float, token: float) -> dict[str, float]:
    """Milliseconds: to the first line and token beyond these waits, and from token to token."""
    delays = sorted(delay for answer in answers for delay in answer.token_delays)
    return {
        "first_line_ms": median(answer.first_line for answer in answers) - line,
        "first_token_ms": median(answer.first_token for answer in answers) - token,
        "token_delay_ms": median(delays),
        "token_delay_p99_ms": delays[int(len(delays) * 0.99)],
    }


if __name__ == "__main__":
    for line in sys.stdin:
        result = asyncio.run(asyncio.wait_for(run(json.loads(line)), SECONDS))
        print(json.dumps(result), flush=True)
