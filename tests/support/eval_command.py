"""Runs the evaluation as a command, against a fake app."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from tests.support.http_server import QuietHandler, run_http_server
from tests.support.isolation import app_copy

SECONDS = 120  # only a hang takes so long
LINES = (
    {"delta": {}, "context": {"data_points": {"text": ["a.md: b"], "citations": ["a.md"]}}},
    {"delta": {"content": "b [a.md]"}},
    {"delta": {}, "context": {"finish_reason": "stop"}},
)


class FakeApp(QuietHandler):
    """Answers every question alike; those with "wait" in them once `released` is set."""

    asked: ClassVar[list[str]]
    released: ClassVar[Event]

    def do_POST(self) -> None:
        """Answer a question."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        question = body["messages"][-1]["content"]
        self.asked.append(question)
        if "wait" in question:
            self.released.wait(SECONDS)
        self._send("".join(json.dumps(line) + "\n" for line in LINES))

    def do_GET(self) -> None:
        """Answer /health."""
        self._send(json.dumps({"model": "fake", "details": {"index": {"name": "none"}}}))

    do_HEAD = do_GET

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@contextmanager
def fake_app() -> Iterator[tuple[str, type[FakeApp]]]:
    class Fake(FakeApp):
        asked: ClassVar[list[str]] = []
        released = Event()

    with run_http_server(Fake) as url:
        yield url, Fake
        Fake.released.set()


def start(*options: str, **variables: str) -> subprocess.Popen[str]:
    return start_part("run", *options, **variables)


def start_part(part: str, *options: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "evals", part, *options],
        cwd=app_copy(),
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(*options: str, **variables: str) -> tuple[int, str]:
    return run_part("run", *options, **variables)


def run_part(part: str, *options: str, **variables: str) -> tuple[int, str]:
    process = start_part(part, *options, **variables)
    output, _ = process.communicate(timeout=SECONDS)
    return process.returncode, output


def write_questions(folder: Path, questions: Sequence[dict[str, Any]]) -> str:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(question) + "\n" for question in questions))
    return str(path)


def results(name: str) -> Path:
    return app_copy() / "build" / "evals" / name
