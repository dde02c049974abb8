"""Runs commands as a person at a terminal does."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

PATIENCE = 60  # seconds; nothing here needs a tenth of it
MAKE = shutil.which("make") or ""
# Hidden files too, but .python-version.
LEFT_OUT = (
    *(".[!p]*", "__pycache__", "tests", "docs", "infra", "bench"),
    *("local.settings.json", "index.db*", "memory.db*"),
)


def environment(path: Path | None = None, only: bool = False) -> dict[str, str]:
    """The environment of the tests, with `path` first on the PATH."""
    folders = [str(path)] if path else []
    folders += [] if only else [os.environ["PATH"]]
    return os.environ | {"PATH": os.pathsep.join(folders)}


def script(path: Path, *lines: str) -> None:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def hear_control_c() -> None:
    """In a child: a job that runs in the background has been told to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(*command: str, folder: Path, env: dict[str, str]) -> Generator[subprocess.Popen[str]]:
    """A command in a process group of its own, as a terminal makes it; ended in any case."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        start_new_session=True,
        preexec_fn=hear_control_c,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def until(process: subprocess.Popen[str], words: str) -> str:
    """Read what a process prints up to a line with `words`; that line."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return line
    raise AssertionError(f"{words!r} did not come, but: {''.join(lines)}")


def control_c(process: subprocess.Popen[str]) -> str:
    """Press Ctrl+C: the whole group gets the signal. What was printed after it."""
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=PATIENCE)[0]


def address(process: subprocess.Popen[str]) -> str:
    """Where a dev server listens, as soon as it answers there."""
    line = until(process, "Health: http://localhost:").strip()
    base = f"http://127.0.0.1:{line.removesuffix('/health').rpartition(':')[2]}"
    assert httpx.get(f"{base}/health", timeout=PATIENCE, trust_env=False).json()["status"] == "ok"
    return base
