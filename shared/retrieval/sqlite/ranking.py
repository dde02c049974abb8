"""Re-ranks the results of a text search by relevance feedback.

BM25 counts the question's words alone. The best passages tell more about its subject: passages that
share words with them move up (Rocchio's method, within the results).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from math import sqrt

RERANKED = 20
"""Passages that are re-ranked at most: the first ones by BM25."""

_MIN_RERANKED_SHARE = 0.3  # of the best score: a passage with less would hardly become a good one
_FEEDBACK_PASSAGES = 5  # the best ones, with which the others are compared
_FEEDBACK_EXPONENT = 6  # of their scores: one that stands out decides almost alone
_SIMILARITY_WEIGHT = 0.7  # the rest is BM25


def count_reranked(scores: Sequence[float]) -> int:
    """Return how many passages to re-rank, whose scores these are, best first."""
    return sum(score >= _MIN_RERANKED_SHARE * scores[0] for score in scores[:RERANKED])


def rerank(scores: Sequence[float], texts: Sequence[str]) -> list[float]:
    """Return new scores for BM25 scores, best first. `texts` are the terms of the first passages.

    A score is 0.3 of BM25 and 0.7 of the similarity to the best passages, which counts as the best
    BM25 score at most: so scores keep BM25's range. Passages without a text have no similarity.
    """
    similarities = _similarities(scores, [dict.fromkeys(text.split()) for text in texts])
    factor = _SIMILARITY_WEIGHT * scores[0] / (max(similarities) or 1)
    return [
        (1 - _SIMILARITY_WEIGHT) * score + factor * similarity
        for score, similarity in zip_longest(scores, similarities, fillvalue=0.0)
    ]


def _similarities(scores: Sequence[float], passages: Sequence[dict[str, None]]) -> list[float]:
    """Return the similarity of each passage to the best ones: cosines of their sets of terms.

    The sets are dictionaries because their order, and so the rounding of a sum, is always the same.
    """
    lengths = [sqrt(len(terms)) or 1 for terms in passages]
    weights: defaultdict[str, float] = defaultdict(float)
    for score, terms, length in zip(scores[:_FEEDBACK_PASSAGES], passages, lengths, strict=False):
        share = (score / scores[0]) ** _FEEDBACK_EXPONENT / length
        for term in terms:
            weights[term] += share
    shared = (sum(filter(None, map(weights.get, terms))) for terms in passages)
    return [weight / length for weight, length in zip(shared, lengths, strict=True)]
