"""Starts the process that reads uploads, whenever there is something to do."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

log = logging.getLogger("chat")

COMMAND = ("-m", "ingest.uploads")
RETRY_SECONDS = 5.0  # after a process that failed; twice as long after each one that follows
MAX_DOUBLINGS = 6  # five minutes


class UploadReader:
    """Runs one process at a time, which ends when nothing is left to do.

    It is a process of its own, at the lowest priority: reading may take much memory and time, and
    a file may be hostile. When the app is killed, it finishes its work.
    """

    def __init__(self, run: Callable[[], bool], retry_seconds: float = RETRY_SECONDS) -> None:
        """`run` runs the process, and returns whether it succeeded."""
        self._run, self._retry_seconds = run, retry_seconds
        self._wanted = Event()
        Thread(target=self._work, name="uploads", daemon=True).start()

    def wake(self) -> None:
        """Start the process now, or again after the one that runs."""
        self._wanted.set()

    def _work(self) -> None:
        failures = 0
        while True:
            wait = self._retry_seconds * 2 ** min(failures - 1, MAX_DOUBLINGS)
            self._wanted.wait(wait if failures else None)
            self._wanted.clear()
            failures = 0 if self._run() else failures + 1
            if failures:
                log.error("uploads: the process that reads them failed: its lines are above")


def run_process(app_folder: Path, uploads: Path) -> bool:
    """Run the process for the folder of uploads, and return whether it succeeded."""
    try:
        process = subprocess.Popen(
            [sys.executable, *COMMAND, str(uploads)],
            cwd=app_folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl+C ends the app alone; not on Windows
        )
    except OSError as error:
        log.error("uploads: the process that reads them does not start: %s", error.strerror)
        return False
    return process.wait() == 0
