"""Tests of asking an app: what comes back, and what is a failure."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, ClassVar

import pytest

from evals.questions import Question
from evals.records import Passage, Record
from evals.target import RETRY, TargetError, open_target
from tests.support.http_server import QuietHandler, run_http_server

QUESTION = Question(question="a?")
AT_ONCE = copy.copy(RETRY)
AT_ONCE.backoff_factor = 0
START = {
    "delta": {"role": "assistant"},
    "context": {
        "data_points": {
            "text": ["a.md: one: two", "a.md: x.md: three", "b.md: four"],
            "citations": ["a.md", "a.md: x.md", "b.md"],
        },
        "thoughts": [],
    },
}
END = {
    "delta": {"role": "assistant"},
    "context": {"finish_reason": "stop", "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
}
ANSWER = [START, {"delta": {"content": "Yes "}}, {"delta": {"content": "[a.md][c.md]."}}, END]


class Handler(QuietHandler):
    """Answers each POST with the next response of the script, the last one again and again."""

    protocol_version = "HTTP/1.1"
    script: ClassVar[list[tuple[int, dict[str, str], bytes]]]
    requests: ClassVar[list[dict[str, Any]]]

    def do_POST(self) -> None:
        """Answer a question."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.requests.append({"body": body, **{k.lower(): v for k, v in self.headers.items()}})
        status, headers, text = self.script.pop(0) if self.script[1:] else self.script[0]
        if not status:
            self.close_connection = True
            return
        self._send(status, headers, text)

    def do_HEAD(self) -> None:
        """Answer whether there is a file."""
        is_present = self.path in ("/content/b.md", "/content/odd%20name.md")
        self._send(200 if is_present else 404, {}, b"")

    def do_GET(self) -> None:
        """Answer /health."""
        health = {"model": "gpt", "details": {"index": {"name": "docs"}}}
        self._send(200, {}, json.dumps(health).encode())

    def _send(self, status: int, headers: dict[str, str], text: bytes) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def serve(*script: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, type[Handler]]]:
    handler = type("Scripted", (Handler,), {"script": list(script), "requests": []})
    with run_http_server(handler) as url:
        yield url, handler


def answer(*lines: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def ask(url: str, question: Question = QUESTION, **headers: str) -> Record:
    async def run() -> Record:
        async with open_target(url, headers, AT_ONCE) as target:
            return await target.ask(question)

    return asyncio.run(run())


def test_reply_has_the_answer_the_passages_and_the_missing_files() -> None:
    with serve(answer(*ANSWER)) as (url, _):
        reply = ask(url).reply

    assert reply
    assert reply.content == "Yes [a.md][c.md]."
    assert reply.passages == (
        Passage(name="a.md", text="one: two"),
        Passage(name="a.md: x.md", text="three"),
        Passage(name="b.md", text="four"),
    )
    assert reply.missing_files == ("c.md",)  # a.md is in the index, so nobody asks for its file
    assert (reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == ("stop", 7, 2)
    assert 0 < reply.seconds_to_first_token <= reply.seconds


def test_earlier_questions_are_asked_and_their_answers_are_sent() -> None:
    question = Question(question="And b?", history=("What is a?",))
    with serve(answer(*ANSWER)) as (url, handler):
        ask(url, question, **{"x-functions-key": "secret"})

    assert [request["body"]["messages"] for request in handler.requests] == [
        [{"role": "user", "content": "What is a?"}],
        [
            {"role": "user", "content": "What is a?"},
            {"role": "assistant", "content": "Yes [a.md][c.md]."},
            {"role": "user", "content": "And b?"},
        ],
    ]
    assert {request["x-functions-key"] for request in handler.requests} == {"secret"}


BUSY = (429, {"retry-after": "0"}, b'{"error": "busy"}')


def test_busy_app_and_reset_connection_are_asked_again() -> None:
    with serve(BUSY, (0, {}, b""), (503, {"retry-after": "0"}, b""), answer(*ANSWER)) as (url, it):
        record = ask(url)

    assert record.reply
    assert len(it.requests) == 4


@pytest.mark.parametrize(
    ("response", "status", "message"),
    [
        (BUSY, 429, "busy"),
        ((500, {}, b'{"error": "broken"}'), 500, "broken"),
        ((500, {}, b"<html>Server Error"), 500, "not an error of the app: '<html>Server Error'"),
        ((401, {}, b""), 401, "not an error of the app"),
        ((200, {}, b"<html>"), 200, "not a line of an answer: '<html>'"),
        ((200, {}, b"[]\n"), 200, "not a line of an answer: '[]'"),
        ((200, {}, b'{"delta": {"content": 5}}\n'), 200, "not a line of an answer"),
        ((200, {}, b""), 200, "the stream ended before the answer did"),
        (answer(*ANSWER[:-1]), 200, "the stream ended before the answer did"),
        (answer(*ANSWER[:2], {"error": "The model failed."}), 200, "The model failed."),
        (
            (200, {"content-length": "9000", "connection": "close"}, answer(*ANSWER)[2]),
            None,
            "RemoteProtocolError",
        ),
    ],
)
def test_what_is_no_answer_is_a_failure(
    response: tuple[int, dict[str, str], bytes], status: int | None, message: str
) -> None:
    with serve(response) as (url, _):
        record = ask(url)

    assert record.reply is None
    assert record.failure
    assert record.failure.status == status
    assert message in record.failure.message


def test_answer_that_does_not_end_is_a_failure() -> None:
    piece = {"delta": {"content": "x" * 100_000}}
    with serve(answer(START, *[piece] * 12, END)) as (url, _):
        record = ask(url)

    assert record.failure
    assert record.failure.message == "the answer does not end"


def test_filtered_question_is_a_refusal_and_no_failure() -> None:
    text = "Your message contains content that was flagged by the OpenAI content filter."
    with serve((HTTPStatus.BAD_REQUEST, {}, json.dumps({"error": text}).encode())) as (url, _):
        record = ask(url)

    assert record.reply
    assert (record.reply.content, record.reply.finish_reason) == ("", "content_filter")


def test_app_is_described_by_its_health() -> None:
    async def run(url: str) -> tuple[str, bool, bool]:
        async with open_target(url, {}) as target:
            files = await target.has_file("odd name.md"), await target.has_file("c.pdf#page=3")
            return await target.describe(), *files

    with serve(answer()) as (url, _):
        assert asyncio.run(run(url)) == ("model gpt, index docs", True, False)


def test_address_without_an_app_is_named() -> None:
    with serve(answer()) as (url, _):
        pass

    with pytest.raises(TargetError, match=url):
        asyncio.run(_describe(url))


async def _describe(url: str) -> str:
    async with open_target(url, {}) as target:
        return await target.describe()
