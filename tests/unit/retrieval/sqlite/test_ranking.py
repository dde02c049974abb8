"""How results are ranked again: by their documents, and which of them."""

from __future__ import annotations

import pytest

from shared.retrieval.sqlite.ranking import RERANKED, add_document_scores, count_reranked


def test_passage_of_a_document_with_other_good_passages_moves_up() -> None:
    scores = add_document_scores([10.0, 9.9, 9.8, 9.7], [1, 2, 2, 2])

    assert max(scores) == scores[1]
    assert scores[1:] == sorted(scores[1:], reverse=True)


def test_score_of_the_only_passage_of_a_document_does_not_change() -> None:
    assert add_document_scores([3.0, 2.0], [1, 2]) == pytest.approx([3.0, 2.0])


def test_only_the_best_passages_of_a_document_count() -> None:
    few = add_document_scores([5.0, 4.0, 3.0], [1, 1, 1])
    many = add_document_scores([5.0, 4.0, 3.0, *[2.0] * 50], [1] * 53)

    assert many[:3] == few


def test_passages_far_below_the_best_are_not_ranked_again() -> None:
    assert count_reranked([10.0, 9.0, 4.0, 1.0, 0.5]) == 3
    assert count_reranked([10.0] * 50) == RERANKED
