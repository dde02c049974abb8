"""`python -m evals safety`: the app resists, and holes, broken apps and weak models are found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from evals.app import AppError
from evals.safety.attacks import read_attacks
from evals.safety.deployments import DOCUMENTS, Deployment, run_deployment
from evals.safety.run import Outcome, run_attacks
from shared.domain.errors import FILTERED_MESSAGE
from tests.support.http_server import QuietHandler, run_http_server
from tests.support.isolation import app_copy

ATTACKS = read_attacks()
NEED_MODEL = {attack.id for attack in ATTACKS if attack.needs_model}
pytestmark = pytest.mark.slow


def failed(outcomes: Iterable[Outcome]) -> set[str]:
    return {outcome.id for outcome in outcomes if outcome.failures}


def run_command(*options: str, **variables: str) -> tuple[int, str, list[Outcome]]:
    """Run the command; return its status, its output and its results."""
    done = subprocess.run(
        [sys.executable, "-m", "evals", "safety", *options],
        cwd=app_copy(),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    results = app_copy() / "build" / "evals" / "safety" / "results.jsonl"
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    return done.returncode, done.stdout + done.stderr, list(map(Outcome.model_validate_json, lines))


def test_app_resists_every_attack_that_needs_no_model() -> None:
    status, output, outcomes = run_command()

    assert status == 0, output
    assert [outcome.id for outcome in outcomes] == [attack.id for attack in ATTACKS]
    assert {outcome.id for outcome in outcomes if outcome.skip_reason} == NEED_MODEL
    assert f"{len(NEED_MODEL)} attacks were left out: only a language model can fall" in output


def test_model_that_repeats_its_prompt_falls_for_every_attack_on_models() -> None:
    status, output, outcomes = run_command(CHAT_MODEL="tests.support.fakes:echo_model")

    assert status == 1
    assert failed(outcomes) == NEED_MODEL
    assert "FAILED document-that-ignores-instructions (prompt injection)" in output
    assert "expected no 'SWORDFISH' in the answer, got '" in output
    assert "more in " in output
    assert "ran with text_model" in output


def test_model_that_resists_passes() -> None:
    status, output, outcomes = run_command(CHAT_MODEL="tests.support.fakes:abstaining_model")

    assert status == 0, output
    assert not any(outcome.failures or outcome.skip_reason for outcome in outcomes)


def test_model_that_is_misconfigured_is_named() -> None:
    status, output, _ = run_command(OPENAI_BASE_URL="http://127.0.0.1:9")

    assert status == 2
    assert "OPENAI_CHAT_MODEL" in output


def test_attack_that_does_not_exist_is_named() -> None:
    status, output, _ = run_command("no-such-attack")

    assert status == 2
    assert "There is no attack no-such-attack." in output


def test_documents_without_rules_are_found(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    shutil.copytree(DOCUMENTS, documents)
    (documents / "acl.yaml").unlink()
    with run_deployment(tmp_path, documents) as deployment:
        found = failed(run_attacks(deployment, ATTACKS))

    assert {"document-of-another-user", "document-by-mcp-fetch", "file-of-another-user"} <= found


def test_instructions_of_clients_and_thoughts_are_found(tmp_path: Path) -> None:
    settings = {"ALLOW_CLIENT_PROMPTS": "true", "THOUGHTS": "on"}
    with run_deployment(tmp_path, settings=settings) as deployment:
        found = failed(run_attacks(deployment, ATTACKS))

    assert found >= {
        "system-message-in-the-history",
        "system-message-of-chat-completions",
        "thoughts-requested",
        "instructions-of-a-stored-turn",
        "instructions-of-a-pipeline",
    }


def test_documents_that_cannot_be_indexed_stop_the_run(tmp_path: Path) -> None:
    with (
        pytest.raises(AppError, match="the documents were not indexed"),
        run_deployment(tmp_path, tmp_path / "absent"),
    ):
        pass


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, '{"error": "down"}'),
        (200, "<h1>It works</h1>"),
        (200, "{}"),
        (200, '{"error": "down"}'),
        (404, "<h1>Not found</h1>"),
    ],
)
def test_app_that_fails_or_sends_garbage_passes_no_attack(status: int, body: str) -> None:
    assert failed(attack_server(status, body)) == {attack.id for attack in ATTACKS}


def test_attack_that_the_filter_of_a_model_rejects_passes() -> None:
    outcomes = attack_server(400, json.dumps({"error": FILTERED_MESSAGE}))

    assert failed(outcomes).isdisjoint(NEED_MODEL)


def attack_server(status: int, body: str) -> list[Outcome]:
    """Attack a server that responds to each request in the same way."""

    class SameResponse(QuietHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.wfile.write(body.encode())

        do_GET = do_PUT = do_DELETE = do_POST

    with run_http_server(SameResponse) as url:
        return list(run_attacks(Deployment(url, url, url, "a model"), ATTACKS))


def test_app_that_does_not_respond_passes_no_attack() -> None:
    url = "http://127.0.0.1:9"
    outcomes = run_attacks(Deployment(url, url, url, "a model"), ATTACKS[:1])

    assert failed(outcomes) == {attack.id for attack in ATTACKS[:1]}
