"""Tests of which results are ranked again."""

from __future__ import annotations

from shared.retrieval.sqlite.ranking import RERANKED, count_reranked


def test_passages_far_below_the_best_are_not_ranked_again() -> None:
    assert count_reranked([10.0, 9.0, 4.0, 1.0, 0.5]) == 3
    assert count_reranked([10.0] * 50) == RERANKED
