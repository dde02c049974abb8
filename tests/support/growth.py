"""Compares the CPU times of work on inputs of two sizes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time
from typing import TypeVar

T = TypeVar("T")
TIMES = 4  # as large is the larger input
LIMIT = 8  # times as long it may take: between the 4 of a line and the 16 of a square
TRIES = 3  # the machine has other work


def cpu_seconds(work: Callable[[], T]) -> tuple[float, T]:
    gc.disable()  # as timeit does: its time grows with all that there is
    before = process_time()
    result = work()
    after = process_time()
    gc.enable()
    return after - before, result


def check_growth(make: Callable[[int], Callable[[], T]], size: int) -> T:
    """Compare the CPU times of work on an input of a size, and of a quarter of it.

    `make` gives the work on an input of a size; making the input is not measured. Returns the
    result of the larger one.
    """
    ratios = []
    for _ in range(TRIES):
        small, _ = cpu_seconds(make(size // TIMES))
        large, result = cpu_seconds(make(size))
        ratios.append(large / small)
        if ratios[-1] < LIMIT:
            return result
    raise AssertionError(f"{TIMES} times the input took {ratios} times as long")
