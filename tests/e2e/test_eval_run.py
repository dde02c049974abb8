"""`python -m evals run`: over the built-in app, after a kill, and with a gate that fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from threading import Event
from typing import ClassVar

import pytest

from tests.support.eval_command import (
    SECONDS,
    FakeApp,
    fake_app,
    results,
    run,
    start,
    write_questions,
)
from tests.support.http_server import run_http_server
from tests.support.isolation import app_copy

SAMPLES = ("--set", "INDEX_FILE=samples")


@pytest.mark.slow
def test_built_in_app_passes_the_gate() -> None:
    status, output = run(*SAMPLES, "--run", "built-in", "--gate")

    assert status == 0, output
    assert "Gate: passed" in output
    assert "no accepted run" not in output
    assert re.search(r"Recall@10 +0\.9\d\d +0\.\d{3} to \d\.\d{3} +\d{3}\n", output)
    summary = json.loads((results("built-in") / "summary.json").read_text("utf-8"))
    assert summary["questions"] > 100
    assert summary["failures"] == []


@pytest.mark.slow
def test_worse_app_fails_the_gate_and_the_change_is_shown() -> None:
    run(*SAMPLES, "--run", "whole")

    options = ("--set", "DEFAULT_TOP=1", "--run", "one-passage", "--before", "whole", "--gate")
    status, output = run(*SAMPLES, *options)

    assert status == 1
    assert "Gate: facts_retrieved: changed by -0." in output
    assert re.search(r"Facts retrieved .* -0\.\d{3} \(-0\.\d{3} to -0\.\d{3}\) \*", output)
    report = (results("one-passage") / "report.html").read_text("utf-8")
    assert "<bdi>one-passage</bdi>, compared with <bdi>whole</bdi>" in report


def test_questions_about_the_samples_are_refused_for_other_documents(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Apples cost two dollars.")
    index = f"INDEX_FILE={tmp_path / 'own.db'}"
    subprocess.run(
        [sys.executable, "-m", "ingest", str(tmp_path / "docs")],
        cwd=app_copy(),
        env={**os.environ, "INDEX_FILE": str(tmp_path / "own.db")},
        check=True,
        capture_output=True,
        timeout=SECONDS,
    )
    status, output = run("--set", index, "--run", "other-documents")

    assert status == 2, output
    assert "The questions are about the sample documents" in output
    assert "make eval QUESTIONS=path" in output
    assert not results("other-documents").exists()


def test_killed_run_goes_on_without_asking_again(tmp_path: Path) -> None:
    texts = ["one?", "two?", "wait?", "three?"]
    path = write_questions(tmp_path, [{"question": text, "facts": ["b"]} for text in texts])
    options = ("--questions", path, "--run", "killed", "--at-once", "2")
    with fake_app() as (url, app):
        process = start(*options, "--target", url)
        answers, end = results("killed") / "answers.jsonl", time.monotonic() + SECONDS
        while not answers.exists() or answers.read_bytes().count(b"\n") < 3:
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
        process.communicate()
        app.asked.clear()
        app.released.set()
        status, output = run(*options, "--target", url)

    assert status == 0, output
    assert app.asked == ["wait?"]
    assert "3 of 4 questions have their answer" in output
    assert re.search(r"Facts found +1\.000 .* 4\n", output)


def test_run_of_another_app_is_not_continued(tmp_path: Path) -> None:
    path = write_questions(tmp_path, [{"question": "one?"}])
    for number, expected in enumerate((0, 2)):
        with fake_app() as (url, _):
            target = url if number else f"{url}/"
            status, output = run("--questions", path, "--run", "other", "--target", target)

        assert status == expected, output
    assert "The run other asked http://127.0.0.1:" in output


def test_failures_are_reported_and_not_averaged_in(tmp_path: Path) -> None:
    questions = [{"question": "one?", "facts": ["b"]}, {"question": "x" * 100, "facts": ["b"]}]
    path = write_questions(tmp_path, questions)

    class Failing(FakeApp):
        asked: ClassVar[list[str]] = []
        released = Event()

        def do_POST(self) -> None:
            """Fail on long questions."""
            if int(self.headers["content-length"]) < 100:
                return super().do_POST()
            self.send_response(500)
            self.end_headers()
            self.wfile.write(b'{"error": "broken"}')

    with run_http_server(Failing) as url:
        status, output = run("--questions", path, "--target", url, "--run", "failing")

    assert status == 1
    assert "2 questions, 1 without an answer" in output
    assert f"no answer (500): {'x' * 100} broken" in output
    assert f"Report: {results('failing') / 'report.html'}\n" in output
    assert "<bdi>broken</bdi>" in (results("failing") / "report.html").read_text("utf-8")
    assert re.search(r"Facts found +1\.000 .* 1\n", output)


def test_key_is_sent_and_not_shown(tmp_path: Path) -> None:
    path = write_questions(tmp_path, [{"question": "one?"}])
    sent: list[str | None] = []

    class Guarded(FakeApp):
        asked: ClassVar[list[str]] = []
        released = Event()

        def do_POST(self) -> None:
            """Note the key and the token."""
            sent.extend((self.headers["x-functions-key"], self.headers["authorization"]))
            super().do_POST()

    with run_http_server(Guarded) as url:
        options = ("--questions", path, "--target", url, "--run", "guarded")
        status, output = run(*options, TARGET_KEY="secret-1", TARGET_TOKEN="secret-2")

    files = "".join(file.read_text("utf-8") for file in results("guarded").iterdir())
    assert (status, sent) == (0, ["secret-1", "Bearer secret-2"])
    assert "secret" not in output + files


def test_settings_are_shown_and_secrets_are_not(tmp_path: Path) -> None:
    path = write_questions(tmp_path, [{"question": "one?"}])
    secret = ("--set", "CHAT_API_KEY=a-secret-of-more-than-20-characters", "--set", "OTHER=secret")
    options = (*SAMPLES, *secret, "--set", "DEFAULT_TOP=3", "--questions", path, "--run", "hidden")

    status, output = run(*options)

    assert status == 0, output
    assert "INDEX_FILE=samples CHAT_API_KEY=... OTHER=... DEFAULT_TOP=3, model demo" in output
    assert "secret" not in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--questions", "absent.jsonl"), "absent.jsonl cannot be read"),
        (("--target", "http://127.0.0.1:9"), "No app answers at http://127.0.0.1:9"),
        (("--before", "absent"), "There is no run absent"),
        (("--run", "../up", "--target", "URL"), "'../up' cannot name a run"),
        (("--set", "DEFAULT_TOP"), "'DEFAULT_TOP' is not NAME=VALUE"),
        (("--set", "DEFAULT_TOP=0"), "is not healthy: "),
        (("--at-once", "0"), "'0' is not a number from 1"),
    ],
)
def test_wrong_option_is_named(options: tuple[str, ...], message: str) -> None:
    with fake_app() as (url, app):
        status, output = run(*[url if option == "URL" else option for option in options])

    assert status == 2
    assert message in output
    assert "Traceback" not in output
    assert app.asked == []
