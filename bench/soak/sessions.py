"""Sessions of clients: questions one after the other, and checks of every answer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp

from bench.soak.fakes import MARKER, answer_tokens
from bench.soak.protocols import (
    HAS_MEMORY_ROUTES,
    SEARCH,
    Protocol,
    Question,
    find,
    is_end,
    read_line,
    text_of,
)

WHOLE, ERROR, LATE_ERROR, LEFT = "whole", "error", "error in mid-stream", "client left"
STATUSES = (429, 502, 503, 504)  # of an error that a service behind the app caused
MEMORY = "/_plugins/_ml/memory"
LEAVING = 0.15  # share of the questions whose client leaves
LEAVING_SECONDS = 0.1  # at most, before the first byte


class Violation(Exception):
    """An answer that is neither whole nor ended by an error, or that has parts of another one."""


@dataclass
class Report:
    """What has happened: endings by protocol, and what must not happen."""

    endings: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, question: str, ending: str) -> None:
        """Count an ending."""
        self.endings[question, ending] += 1

    def count(self, ending: str) -> int:
        """How many questions ended so."""
        return sum(number for (_, each), number in self.endings.items() if each == ending)

    def __str__(self) -> str:
        counts = (f"{self.count(each)} {each}" for each in (WHOLE, ERROR, LATE_ERROR, LEFT))
        return f"{', '.join(counts)}, {len(self.violations)} violations"


def require(condition: object, problem: str) -> None:
    """Raise Violation with the problem unless the condition holds."""
    if not condition:
        raise Violation(problem)


@dataclass
class Session:
    """A client that asks some questions in one protocol. `random` decides when it leaves."""

    client: aiohttp.ClientSession
    protocol: Protocol
    number: int
    random: Random
    report: Report
    may_leave: bool = True
    turns: list[tuple[str, str]] = field(default_factory=list)
    conversation: str | None = None
    stored: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Ask up to three questions, then check the stored conversation."""
        try:
            if self.protocol is SEARCH:
                created = await self._call("POST", MEMORY, {"name": f"s{self.number}"})
                self.conversation = created["memory_id"]
            for place in range(self.random.randint(1, 3)):
                streams = bool(self.protocol.stream_path and self.random.random() < 0.6)
                await self.ask(place, streams)
            if self.conversation is not None and HAS_MEMORY_ROUTES:
                await self._check_stored(self.conversation)
        except Violation as violation:
            self.report.violations.append(f"session {self.number}: {violation}")

    async def ask(self, place: int, streams: bool) -> str:
        """Ask a question, and return how its answer ended. Raises Violation."""
        marker = f"s{self.number}q{place}"
        question = Question(
            f"{marker}: is dental care covered?", self.turns, self.conversation, streams
        )
        name = f"{self.protocol.name}, {'stream' if streams else 'whole'}"
        leaves = self.may_leave and self.random.random() < LEAVING
        lines = self.random.choice((0, self.random.randint(1, 20))) if leaves else None
        try:
            ending = await self._read(question, marker, lines)
        except Violation as violation:
            raise Violation(f"{name}: {violation}") from None
        except (aiohttp.ClientError, json.JSONDecodeError) as error:
            raise Violation(f"{name}: {marker}: {error!r}") from error
        self.report.add(name, ending)
        return ending

    async def _read(self, question: Question, marker: str, lines: int | None) -> str:
        """Read an answer, or only some lines of it."""
        seconds = self.random.uniform(0, LEAVING_SECONDS) if lines == 0 else None
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._read_answer(question, marker, lines)
        except TimeoutError:
            require(limit.expired(), f"{marker}: no end")
            return LEFT

    async def _read_answer(self, question: Question, marker: str, lines: int | None) -> str:
        path, body = self.protocol.path_of(question), self.protocol.body(question)
        async with self.client.post(path, json=body) as response:
            data: list[bytes] = []
            async for line in response.content:
                data.append(line)
                if lines and len(data) == lines:
                    response.close()
                    return LEFT
            return self._check(question, marker, response.status, data)

    def _check(self, question: Question, marker: str, status: int, data: Sequence[bytes]) -> str:
        """Return how an answer ended. Raises Violation."""
        sessions = {each.split("q")[0] for each in MARKER.findall(b"".join(data).decode())}
        require(sessions <= {f"s{self.number}"}, f"{marker}: has parts of {sorted(sessions)}")
        if status != 200 or not question.streams:
            values = [json.loads(b"".join(data))]
        else:
            values = [value for value in map(read_line, data) if value is not None]
        if status != 200:
            is_known = status in STATUSES and self.protocol.is_error(values[0])
            require(is_known, f"{marker}: {status} {data}")
            return ERROR
        return self._check_values(question, marker, values)

    def _check_values(self, question: Question, marker: str, values: list[Any]) -> str:
        expected = "".join(answer_tokens(marker))
        is_error = self.protocol.is_error(values[-1])
        events = values[:-1] if is_error else values
        text = "".join(map(text_of, events))
        self.conversation = next(find(values, "conversation_id"), self.conversation)
        if is_error:
            require(expected.startswith(text), f"{marker}: an error behind {text!r}")
            return LATE_ERROR if question.streams else ERROR
        require(text == expected, f"{marker}: {text!r}, not {expected!r}")
        require(self.protocol is SEARCH or is_end(values[-1]), f"{marker}: no end: {values[-1]}")
        self.turns.append((question.text, text))
        self.stored.append(marker)
        return WHOLE

    async def _check_stored(self, conversation: str) -> None:
        """Check that a conversation has every whole answer, and no other's."""
        page = await self._call("GET", f"{MEMORY}/{conversation}/messages?max_results=100")
        answers = {MARKER.findall(each["input"])[-1]: each["response"] for each in page["messages"]}
        for marker, text in answers.items():
            is_own = marker.startswith(f"s{self.number}q")
            require(is_own and text == "".join(answer_tokens(marker)), f"stored: {marker}: {text}")
        missing = set(self.stored) - answers.keys()
        require(not missing, f"not stored: {sorted(missing)}")

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a response to a call that needs no service. Raises Violation."""
        async with self.client.request(method, path, json=body) as response:
            value = await response.json()
            require(response.status == 200, f"{method} {path}: {response.status} {value}")
            return value
