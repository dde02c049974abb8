"""How the time of a piece of work grows with its input: rows, their measurement, their exponent."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, log2
from time import process_time
from typing import Any

from shared.domain.errors import ChatError

DOUBLINGS = 5  # of the smallest input, up to the largest
MOST = log2(3)  # the exponent that is still no square: three times as long at a doubling
FLOOR = 50.0  # milliseconds: times below it are not judged
ENOUGH = 5_000.0  # milliseconds: an input that takes longer is not doubled
TRIES = 3  # the machine has other work
LONG = 1_000.0  # milliseconds: what takes longer is measured once


@dataclass(frozen=True, slots=True)
class Row:
    """An input that grows to a size of `largest`, in characters or entries, and what reads it.

    `make` is not measured. `valid`: with a size of 1 it is accepted.
    """

    name: str
    kind: str
    make: Callable[[int], Any]
    read: Callable[[Any], object]
    largest: int
    valid: bool = True


@dataclass(frozen=True, slots=True)
class Growth:
    """The milliseconds of CPU time of growing inputs, and what the last one gave.

    Each input is the one before, doubled `step` times.
    """

    times: Sequence[float]
    result: object = None
    step: int = 1

    @property
    def exponent(self) -> float:
        """The power of the size by which the last times grow; 0 where they are too short."""
        last = self.times[-3:]
        if last[-1] < FLOOR:
            return 0
        if len(last) == 1:
            return inf
        return log2(last[-1] / max(last[0], 0.001)) / (len(last) - 1) / self.step

    @property
    def is_square(self) -> bool:
        """Whether it grows clearly faster than its input."""
        return self.exponent > MOST


def measure(row: Row, doublings: int = DOUBLINGS, step: int = 1, tries: int = TRIES) -> Growth:
    """Measure a row, up to its largest size: the shortest times of some tries."""
    times: list[float] = []
    result: object = None
    gc.collect()
    for halvings in range(doublings, -1, -step):
        value = row.make(max(1, row.largest >> halvings))
        shortest, left = inf, tries
        while left > 0:
            time, result = _milliseconds(row, value)
            shortest, left = min(shortest, time), left - 1 if time < LONG else 0
        times.append(shortest)
        if shortest > ENOUGH:
            break
    return Growth(times, result, step)


def _milliseconds(row: Row, value: Any) -> tuple[float, object]:
    """Return the CPU time of one input, be it refused or not, and what came of it."""
    result: object = None
    gc.disable()  # as timeit does: its time grows with all that there is
    start = process_time()
    with suppress(ChatError):
        result = row.read(value)
    gc.enable()
    return (process_time() - start) * 1000, result
