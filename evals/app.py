"""Starts the app of this folder for a run, and ends it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from evals.errors import EvaluationError
from evals.records import ROOT

PAGE = re.compile(r"^Page: (http://\S+)/$", re.MULTILINE)
SECONDS = 60  # only a hang takes so long


class AppError(EvaluationError):
    """The app did not start; the message has the end of its log."""


@contextmanager
def run_app(settings: Mapping[str, str], folder: Path = ROOT) -> Iterator[str]:
    """Serve the app of `folder` until the block ends; yield its URL. Raises AppError.

    `settings` have precedence over the environment, and both over local.settings.json.
    """
    command = [sys.executable, "dev_server.py", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **settings}
    with tempfile.TemporaryDirectory() as scratch, (Path(scratch) / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield _wait_for_url(process, Path(log.name))
        finally:
            process.send_signal(signal.SIGINT if os.name != "nt" else signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _wait_for_url(process: subprocess.Popen[bytes], log: Path) -> str:
    end = monotonic() + SECONDS
    while monotonic() < end:
        is_running = process.poll() is None
        text = log.read_text("utf-8", "replace")
        if page := PAGE.search(text):
            return page[1]
        if not is_running:
            break
        sleep(0.05)
    raise AppError(f"the app did not start:\n{text[-2000:]}")
