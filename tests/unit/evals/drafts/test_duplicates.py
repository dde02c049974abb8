"""Questions that ask the same as another are found."""

from __future__ import annotations

import pytest

from evals.drafts.duplicates import find_duplicate
from evals.questions import Question

GENERIC = Question(
    question="What is the copay for generic drugs in Northwind Health Plus?", facts=(("$10",),)
)


def question(text: str, *facts: str, history: tuple[str, ...] = ()) -> Question:
    return Question(question=text, facts=tuple((fact,) for fact in facts), history=history)


@pytest.mark.parametrize(
    "other",
    [
        question("How much is the copay for generic drugs with Health Plus?", "$10"),
        question("In Northwind Health Plus, what is the copay for generic drugs?", "A $10 copay"),
        question("what is the copay for generic drugs in northwind health plus", "$15", "$10"),
        question("What is the copay for generic drugs in Northwind Health Plus now?"),
    ],
    ids=lambda each: each.question,
)
def test_question_in_nearly_the_same_words_is_a_duplicate(other: Question) -> None:
    assert find_duplicate(other, [GENERIC]) == GENERIC


@pytest.mark.parametrize(
    "other",
    [
        question("What is the copay for brand-name drugs in Northwind Health Plus?", "$35"),
        question("What is the annual deductible of Northwind Health Plus?", "$500"),
        question("What does an eye exam cost?", "$10"),
        question("And the copay for generic drugs?", "$10", history=("What is Health Plus?",)),
    ],
    ids=lambda each: each.question,
)
def test_other_question_is_no_duplicate(other: Question) -> None:
    assert find_duplicate(other, [GENERIC]) is None
