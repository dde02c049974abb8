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
RETRY_SECONDS = 5.0  # after a process that failed
MAX_FAILURES = 5  # in a row; the next upload or deletion starts it again


class UploadReader:
    """Runs one process at a time, which ends when nothing is left to do.

    It is a process of its own, at the lowest priority: reading may take much memory and time, and
    a file may be hostile. When the app is killed, it finishes its work.
    """

    def __init__(
        self, app_folder: Path, uploads: Path, run: Callable[[], bool] | None = None
    ) -> None:
        """`uploads` is the folder of uploads. `run` runs the process, and returns if it succeeded.

        It is replaced in tests alone.
        """
        self._app_folder, self._uploads = app_folder, uploads
        self._run = run or self._run_process
        self._wanted = Event()
        Thread(target=self._work, name="uploads", daemon=True).start()

    def wake(self) -> None:
        """Start the process now, or again after the one that runs."""
        self._wanted.set()

    def _work(self) -> None:
        failures = 0
        while True:
            # After a failure it starts by itself, a few times.
            self._wanted.wait(RETRY_SECONDS if 0 < failures < MAX_FAILURES else None)
            self._wanted.clear()
            failures = 0 if self._run() else failures + 1
            if failures:
                log.error("uploads: the process that reads them failed: its lines are above")

    def _run_process(self) -> bool:
        try:
            process = subprocess.Popen(
                [sys.executable, *COMMAND, str(self._uploads)],
                cwd=self._app_folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl+C ends the app alone
            )
        except OSError as error:
            log.error("uploads: the process that reads them does not start: %s", error.strerror)
            return False
        return process.wait() == 0
