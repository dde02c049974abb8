"""Re-ranks the results of a text search by relevance feedback, and fuses them with vectors.

BM25 counts the question's words alone. The best passages tell more about its subject: passages that
share words with them move up (Rocchio's method, within the results).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import log10, sqrt

RERANKED = 20
"""Passages that are re-ranked at most: the first ones by BM25."""

_MIN_RERANKED_SHARE = 0.3  # of the best score: a passage with less would hardly become a good one
_FEEDBACK_PASSAGES = 5  # the best ones, with which the others are compared
_FEEDBACK_EXPONENT = 6  # of their scores: one that stands out decides almost alone
_SIMILARITY_WEIGHT = 0.7  # the rest is BM25

# By the measurement in docs/performance.md: for 1 passage, and for each tenfold number of them.
_CHANCE = 0.065
_CHANCE_PER_DECADE = 0.05


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


def fuse(
    shares: Mapping[int, float], cosines: Mapping[int, float], weight: float
) -> list[tuple[int, float]]:
    """Return a score up to 1 for each key of `cosines`, in their order.

    It is the mean of the share of the highest possible text score, 0 for a passage without one,
    and the relative cosine, which has the `weight`.
    """
    return [
        (key, (shares.get(key, 0.0) + weight * cosine) / (1 + weight))
        for key, cosine in cosines.items()
    ]


def relevance(shares: Mapping[int, float], cosines: Mapping[int, float], passages: int) -> float:
    """How much the best of so many passages have to do with the question, relative to chance.

    It is the mean of the best share and the best cosine, divided by what that mean reaches for one
    in ten questions about something else: by chance, the best of more passages is more like any
    question.
    """
    if not passages:
        return 0.0
    best = (max(shares.values(), default=0.0) + max(cosines.values())) / 2
    return best / (_CHANCE + _CHANCE_PER_DECADE * log10(passages))
