"""Runs the ingestion command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.isolation import app_copy
from tests.support.upstream import RecordedRequest, Step, Upstream, answer_events, stream_response

PATIENCE = 240.0  # seconds; only a hang takes so long


def run_command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """What the command says, and its exit status."""
    command = [sys.executable, "-m", "ingest", *arguments]
    environment = {**os.environ, **settings, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command,
        cwd=app_copy(),
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
    )


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


class Seeing(Upstream):
    """Sees Anna, whatever it is shown."""

    def respond(self, request: RecordedRequest) -> list[Step]:
        if request.path.endswith("/chat/completions"):
            return stream_response(answer_events("Anna leads the board."))
        return super().respond(request)


def talking(model: Upstream) -> dict[str, str]:
    """The settings for a model that sees, and one that makes vectors."""
    return {
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "OPENAI_CHAT_MODEL": "gpt-4o",
        "OPENAI_EMBEDDING_MODEL": "e",
    }
