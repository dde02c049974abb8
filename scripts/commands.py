"""Runs az and azd: without a shell, with a time limit, with the same arguments on every system."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent
ON_WINDOWS = os.name == "nt"
INSTALL_PAGES = {
    "az": "https://learn.microsoft.com/cli/azure/install-azure-cli",
    "azd": "https://learn.microsoft.com/azure/developer/azure-developer-cli/install-azd",
}
FAILURE_MESSAGE = (
    "{command} failed with exit status {status}. Correct what it reports, then run this script "
    "again: it continues where it stopped."
)
TIMEOUT_MESSAGE = (
    "{command} has not ended within {seconds:g} seconds. Check the network, and whether {name} "
    "works by itself, then run this script again: it continues where it stopped."
)


class CommandError(Exception):
    """A command cannot run, has failed or has not ended; the message says what to do next."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a command."""

    seconds: float = 120  # of one run
    tries: int = 6  # how often a command is run that Entra ID may refuse at first
    pause: float = 5  # seconds between two runs


@dataclass(frozen=True, slots=True)
class Result:
    """The exit status of a command, and its output without white space around it."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class Program:
    """A program on the PATH, az or azd: its name, its path, the limits of its commands."""

    name: str
    path: str
    limits: Limits

    def try_run(self, *arguments: str, quiet: bool = False) -> Result:
        """Run a command; a failure is in the result. `quiet`: without its error output.

        Raises CommandError if it cannot start or does not end in time.
        """
        with tempfile.TemporaryFile() as output:
            process = self.start(arguments, output, quiet)
            try:
                status = process.wait(self.limits.seconds)
            except subprocess.TimeoutExpired:
                command, seconds = self.describe(arguments), self.limits.seconds
                raise CommandError(
                    TIMEOUT_MESSAGE.format(command=command, seconds=seconds, name=self.name)
                ) from None
            finally:
                kill(process)
            output.seek(0)
            return Result(status, output.read().decode("utf-8", "replace").strip())

    def start(
        self, arguments: Sequence[str], output: IO[bytes], quiet: bool
    ) -> subprocess.Popen[bytes]:
        """Start a command that cannot ask for input. Raises CommandError.

        It runs in the project's folder, where azd looks for its environment.
        """
        try:
            return subprocess.Popen(
                command_line([self.path, *arguments]),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL if quiet else None,
                start_new_session=True,  # so that `kill` ends its children, too
            )
        except OSError as error:
            page = INSTALL_PAGES[self.name]
            raise CommandError(
                f"{self.path} cannot start ({error}). Install {self.name} again: {page}"
            ) from None

    def run(self, *arguments: str) -> str:
        """Run a command; return its output. Raises CommandError."""
        result = self.try_run(*arguments)
        if result.status != 0:
            command = self.describe(arguments)
            raise CommandError(FAILURE_MESSAGE.format(command=command, status=result.status))
        return result.output

    def run_with_retries(self, *arguments: str) -> str:
        """Run a command until it succeeds; return its output. Raises CommandError.

        For some seconds after it was created, a registration is not found everywhere.
        """
        tries, pause = self.limits.tries, self.limits.pause
        for number in range(1, tries):
            result = self.try_run(*arguments)
            if result.status == 0:
                return result.output
            retry = f"try {number} of {tries}; the next one in {pause:g} seconds"
            print(f"{self.describe(arguments)} failed ({retry}) ...", file=sys.stderr, flush=True)
            time.sleep(pause)
        return self.run(*arguments)

    def describe(self, arguments: Sequence[str]) -> str:
        """Return the command up to its first option, for messages."""
        words = takewhile(lambda argument: not argument.startswith("-"), arguments)
        return " ".join([self.name, *words])


def find_program(name: str, windows: bool = ON_WINDOWS, path: str | None = None) -> str:
    """Return the path of a program, searched in `path`, by default the PATH. Raises CommandError.

    On Windows az is the batch file az.cmd. Beside it is a Bash script `az`, which shutil.which
    prefers in some versions of Python 3.12 (python/cpython issue 109590): so by its full name.
    """
    names = [f"{name}{suffix}" for suffix in (".exe", ".cmd", ".bat")] if windows else [name]
    for candidate in names:
        if executable := shutil.which(candidate, path=path):
            return os.path.abspath(executable)
    raise CommandError(f"Install {name} first: {INSTALL_PAGES[name]}")


def command_line(arguments: Sequence[str], windows: bool = ON_WINDOWS) -> Sequence[str] | str:
    """Return a command as Popen takes it. Raises CommandError.

    On Windows cmd.exe runs az.cmd and interprets parentheses, `|` and `&` unless they are in double
    quotes. Popen quotes only what contains a space, so each argument is quoted here. Nothing
    protects a quote, a `%`, a line break or a backslash at the end: these are refused.
    """
    if not windows:
        return arguments
    for argument in arguments:
        if re.search(r'["%\r\n]|\\$', argument):
            raise CommandError(f"cmd.exe would change this argument, so nothing runs: {argument}")
    return " ".join(f'"{argument}"' for argument in arguments)


@contextmanager
def json_file(value: Any) -> Iterator[str]:
    """Write a value to a temporary file; yield the argument by which az reads it.

    As an argument itself JSON would lose its quotes on Windows.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "body.json"
        path.write_text(json.dumps(value), "ascii")
        yield f"@{path}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, with its children: az is a script that starts Python."""
    if process.poll() is not None:
        return
    if ON_WINDOWS:
        tree = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(tree, capture_output=True, check=False)
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def report(line: str) -> None:
    """Print a line at once, before the next command prints its own."""
    print(line, flush=True)
