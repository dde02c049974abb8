"""Means with an interval, so that noise is not read as a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95  # of the intervals that are shown
BLOCKS, BLOCK_SIZE = 20, 500  # resamples: in blocks, to need less memory
SEED = 7  # the same figures have the same interval


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over so many questions, and the bounds of its bootstrap interval."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def excludes_zero(self) -> bool:
        """Whether a change is more than noise."""
        return self.low > 0 or self.high < 0


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean with its percentile bootstrap interval. Raises ValueError without values."""
    if not values:
        raise ValueError("there are no values")
    array = np.asarray(values, float)
    generator = np.random.default_rng(SEED)
    shape = (BLOCK_SIZE, len(array))
    means = [array[generator.integers(0, len(array), shape)].mean(axis=1) for _ in range(BLOCKS)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(array.mean()), float(low), float(high), len(array))


def pair_values(
    before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[list[float], list[float]]:
    """Return the values of the questions that both have, in one order."""
    shared = [question for question in after if question in before]
    return [before[each] for each in shared], [after[each] for each in shared]


def difference(
    before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE
) -> Interval:
    """Return the mean change, question by question: both have the same questions in one order."""
    return interval([new - old for old, new in zip(before, after, strict=True)], confidence)
