"""Tests of the bootstrap intervals."""

from __future__ import annotations

import random

import pytest

from evals.statistics import difference, interval


def test_equal_values_have_no_width() -> None:
    bounds = interval([1.0] * 20)

    assert (bounds.mean, bounds.low, bounds.high, bounds.count) == (1.0, 1.0, 1.0, 20)


def test_interval_holds_the_true_mean_about_19_times_in_20() -> None:
    chance = random.Random(1)

    samples = [[float(chance.random() < 0.7) for _ in range(100)] for _ in range(200)]

    hits = sum(bounds.low <= 0.7 <= bounds.high for bounds in map(interval, samples))
    assert 180 <= hits <= 198


def test_change_of_few_questions_is_noise_and_of_more_is_not() -> None:
    before = [1.0] * 80

    assert difference(before, [0.0] * 2 + [1.0] * 78).high == 0
    assert difference(before, [0.0] * 6 + [1.0] * 74).high < 0


def test_same_values_have_the_same_interval() -> None:
    values = [0.0, 0.5, 1.0, 1.0]

    assert interval(values) == interval(values)


def test_no_values_have_no_interval() -> None:
    with pytest.raises(ValueError, match="no values"):
        interval([])
