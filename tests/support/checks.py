"""The commands of `make check`, with the Python of the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PYTHON = (sys.executable, "-m")
CHECKS: Sequence[Sequence[str]] = (
    (*PYTHON, "ruff", "check"),
    (*PYTHON, "ruff", "format", "--check"),
    (*PYTHON, "mypy"),
    (str(Path(sys.executable).with_name("lint-imports")), "--no-cache"),
)


def run_checks(folder: Path, *more: Sequence[str], env: Mapping[str, str] | None = None) -> None:
    """Run the checks, then `more`, in a folder. Asserts that each succeeds."""
    for command in (*CHECKS, *more):
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout[-10_000:]}{done.stderr[-5_000:]}"
