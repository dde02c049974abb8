"""The process that reads uploads starts when it is wanted, and again after a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Semaphore

from shared.uploads.folder.reader import UploadReader, run_process

SECONDS = 60  # only a hang takes so long


class Runs:
    """Counts the runs, each of which waits until it may end."""

    def __init__(self, succeeds: Callable[[int], bool]) -> None:
        self.succeeds, self.count = succeeds, 0
        self.started, self.may_end = Semaphore(0), Semaphore(0)

    def __call__(self) -> bool:
        self.count += 1
        self.started.release()
        assert self.may_end.acquire(timeout=SECONDS)
        return self.succeeds(self.count)

    def wait_for_start(self) -> None:
        assert self.started.acquire(timeout=SECONDS)


def test_process_starts_when_it_is_wanted() -> None:
    runs = Runs(lambda _: True)
    reader = UploadReader(runs)
    assert not runs.started.acquire(timeout=0.1)
    reader.wake()

    runs.wait_for_start()
    runs.may_end.release()


def test_wakes_during_a_run_start_one_more() -> None:
    runs = Runs(lambda _: True)
    reader = UploadReader(runs)
    reader.wake()
    runs.wait_for_start()
    for _ in range(3):
        reader.wake()
    runs.may_end.release(9)
    runs.wait_for_start()

    assert not runs.started.acquire(timeout=0.2)
    assert runs.count == 2


def test_failed_process_starts_again_by_itself() -> None:
    runs = Runs(lambda number: number == 4)
    reader = UploadReader(runs, retry_seconds=0.01)
    runs.may_end.release(99)
    reader.wake()
    for _ in range(4):
        runs.wait_for_start()

    assert not runs.started.acquire(timeout=0.2)
    assert runs.count == 4


def test_process_that_cannot_run_has_failed(tmp_path: Path) -> None:
    ended = Event()

    def run() -> bool:
        try:
            return run_process(tmp_path / "missing", tmp_path)
        finally:
            ended.set()

    UploadReader(run).wake()
    assert ended.wait(SECONDS)
    assert run_process(tmp_path, tmp_path) is False  # there is no package `ingest`
