"""Finds questions that resemble each other."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, utils

from evals.questions import Question

# Of the words of both questions, up to 100. Two versions of a sample question have 81 or more; two
# sample questions with a fact in common have at most 73, unless one contains the other.
MIN_SIMILARITY = 80


def find_duplicate(question: Question, others: Iterable[Question]) -> Question | None:
    """Return the first that is like a question: nearly the same words, and a fact in common.

    "The copay of tier 1" and "of tier 2" differ in their facts. A question that refers to earlier
    ones is like none.
    """
    return next((other for other in others if _is_duplicate(question, other)), None)


def _is_duplicate(question: Question, other: Question) -> bool:
    if question.history or other.history:
        return False
    texts = question.question, other.question
    score = fuzz.token_set_ratio(*texts, processor=utils.default_process)
    return score >= MIN_SIMILARITY and _share_fact(question, other)


def _share_fact(question: Question, other: Question) -> bool:
    """Whether a fact of one contains one of the other; True if one of them has none."""
    facts, others = _facts(question), _facts(other)
    return not (facts and others) or any(a in b or b in a for a in facts for b in others)


def _facts(question: Question) -> list[str]:
    return [fact.casefold() for alternatives in question.facts for fact in alternatives]
