"""Asks a running app by the AI Chat Protocol, as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import quote

import httpx
from httpx_retries import Retry, RetryTransport
from pydantic import BaseModel, ValidationError

from evals.citations import find_citations
from evals.errors import EvaluationError
from evals.questions import Question
from evals.records import Failure, Passage, Record, Reply
from shared.domain.errors import FILTERED_MESSAGE

TIMEOUT = httpx.Timeout(120, connect=10)  # the app itself ends an answer before
RETRY = Retry(
    total=4,
    allowed_methods=["HEAD", "POST"],
    status_forcelist=[429, 502, 503, 504],
    backoff_factor=0.5,
    max_backoff_wait=30,
    # Not ReadTimeout: what stalls once would stall again, for minutes.
    retry_on_exceptions=[httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError],
)
MAX_ANSWER = 1_000_000  # characters of a stream; more is no answer
MAX_MESSAGE = 300  # characters of what is shown of an error


class TargetError(EvaluationError):
    """No app answers there, or it is not healthy; the message names the address."""


class _NoAnswer(Exception):
    """The app has not answered."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.failure = Failure(status=status, message=message[:MAX_MESSAGE])


class _Delta(BaseModel):
    content: str | None = None


class _DataPoints(BaseModel):
    text: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()

    def passage(self, line: str) -> Passage:
        """Read a text, which is `name: passage`; a name may have a colon and a space, too."""
        names = [name for name in self.citations if line.startswith(f"{name}: ")]
        name = max(names, key=len, default="")
        return Passage(name=name, text=line.removeprefix(f"{name}: ") if name else line)


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Context(BaseModel):
    data_points: _DataPoints | None = None
    finish_reason: str | None = None
    usage: _Usage = _Usage()


class _Line(BaseModel):
    delta: _Delta = _Delta()
    context: _Context = _Context()
    error: Any = None


class _Error(BaseModel):
    error: str


class _Index(BaseModel):
    name: str


class _Details(BaseModel):
    index: _Index


class _Health(BaseModel):
    model: str
    details: _Details


@dataclass(frozen=True, slots=True)
class Target:
    """A running app, asked through one client."""

    client: httpx.AsyncClient
    _is_present: dict[str, bool] = field(default_factory=dict)

    async def ask(self, question: Question) -> Record:
        """Ask a question after those of its history. What goes wrong is in the record."""
        messages: list[dict[str, str]] = []
        try:
            for text in (*question.history, question.question):
                messages.append({"role": "user", "content": text})
                reply = await self._reply(messages)
                messages.append({"role": "assistant", "content": reply.content})
        except _NoAnswer as error:
            return Record(question=question, failure=error.failure)
        others = set(find_citations(reply)) - {passage.name for passage in reply.passages}
        missing = tuple([name for name in sorted(others) if not await self.has_file(name)])
        return Record(question=question, reply=reply.model_copy(update={"missing_files": missing}))

    async def has_file(self, name: str) -> bool:
        """Whether the app serves the file of a citation, or cannot tell."""
        path = f"/content/{quote(name.partition('#')[0])}"
        if path not in self._is_present:
            try:
                response = await self.client.head(path)
            except httpx.HTTPError:
                return True
            self._is_present[path] = response.status_code != httpx.codes.NOT_FOUND
        return self._is_present[path]

    async def describe(self) -> str:
        """Return the model and the index, as /health names them. Raises TargetError."""
        try:
            response = await self.client.get("/health")
        except httpx.HTTPError as error:
            raise TargetError(f"No app answers at {self.client.base_url} ({error!r}).") from None
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            reason = response.text[:MAX_MESSAGE]
            raise TargetError(f"The app at {self.client.base_url} is not healthy: {reason}")
        try:
            health = _Health.model_validate_json(response.content)
        except ValidationError:
            return "model and index unknown"
        return f"model {health.model}, index {health.details.index.name}"

    async def _reply(self, messages: list[dict[str, str]]) -> Reply:
        start = perf_counter()
        try:
            async with self.client.stream(
                "POST", "/chat/stream", json={"messages": messages}
            ) as response:
                if response.status_code != httpx.codes.OK:
                    return _read_error(response.status_code, await response.aread(), start)
                return await _read_stream(response, start)
        except httpx.HTTPError as error:
            raise _NoAnswer(f"{type(error).__name__} {error}".rstrip()) from None


def _read_error(status: int, body: bytes, start: float) -> Reply:
    """Return the empty reply of a content filter. Raises _NoAnswer for every other error."""
    try:
        message = _Error.model_validate_json(body).error
    except ValidationError:
        message = f"not an error of the app: {body.decode('utf-8', 'replace')!r}"
    if status != httpx.codes.BAD_REQUEST or FILTERED_MESSAGE not in message:
        raise _NoAnswer(message, status)
    seconds = perf_counter() - start
    return Reply(
        content="",
        passages=(),
        finish_reason="content_filter",
        seconds_to_first_token=seconds,
        seconds=seconds,
    )


async def _read_stream(response: httpx.Response, start: float) -> Reply:
    """Read the lines of an answer. Raises _NoAnswer."""
    content: list[str] = []
    points, end = _DataPoints(), _Context()
    first, size = 0.0, 0
    async for text in response.aiter_lines():
        size += len(text)
        if size > MAX_ANSWER:
            raise _NoAnswer("the answer does not end", httpx.codes.OK)
        line = _parse(text)
        points, end = line.context.data_points or points, line.context
        if line.delta.content:
            first = first or perf_counter() - start
            content.append(line.delta.content)
    if not end.finish_reason:
        raise _NoAnswer("the stream ended before the answer did", httpx.codes.OK)
    seconds = perf_counter() - start
    return Reply(
        content="".join(content),
        passages=tuple(map(points.passage, points.text)),
        finish_reason=end.finish_reason,
        prompt_tokens=end.usage.prompt_tokens,
        completion_tokens=end.usage.completion_tokens,
        seconds_to_first_token=first or seconds,
        seconds=seconds,
    )


def _parse(text: str) -> _Line:
    try:
        line = _Line.model_validate_json(text)
    except ValidationError:
        raise _NoAnswer(f"not a line of an answer: {text!r}", httpx.codes.OK) from None
    if line.error is not None:
        raise _NoAnswer(str(line.error), httpx.codes.OK)
    return line


@asynccontextmanager
async def open_target(
    url: str, headers: Mapping[str, str], retry: Retry = RETRY
) -> AsyncIterator[Target]:
    """Open a client of the app at `url`."""
    transport = RetryTransport(httpx.AsyncHTTPTransport(), retry)
    async with httpx.AsyncClient(
        base_url=url.rstrip("/"), headers=headers, timeout=TIMEOUT, transport=transport
    ) as client:
        yield Target(client)
