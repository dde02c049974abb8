"""Tests of the scores that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evals.metrics import METRICS, Prices, is_abstention, is_refusal, score
from evals.questions import Question
from evals.records import Failure, Passage, Record, Reply


def reply(content: str = "", names: Sequence[str] = (), **more: Any) -> Reply:
    passages = tuple(Passage(name=name, text=f"the text of {name}") for name in names)
    return Reply(
        content=content, passages=passages, seconds_to_first_token=0.25, seconds=0.5, **more
    )


def scores_of(answer: Reply, **expected: Any) -> dict[str, float]:
    question = Question.model_validate({"question": "a?", **expected})
    return score(Record(question=question, reply=answer))


def test_ranking_counts_pages_and_takes_alternatives_for_one() -> None:
    names = ["x.md", "x.md", "b.pdf#page=2", "a.md", "y.md", "c.md"]

    scores = scores_of(reply("", names), citations=["a.md", ["b.pdf#page=2", "c.md"], "absent.md"])

    # The pages are x.md, the second expectation, a.md: the passage of c.md repeats the second.
    assert scores["recall@3"] == pytest.approx(2 / 3)
    assert scores["recall@10"] == pytest.approx(2 / 3)
    assert scores["reciprocal_rank"] == pytest.approx(1 / 2)
    assert scores["ndcg@10"] == pytest.approx((0.63093 + 0.5) / (1 + 0.63093 + 0.5), abs=1e-4)


def test_page_that_meets_two_expectations_counts_for_both() -> None:
    answer = reply("$40 and $75 [table.md].", ["x.md", "table.md"])

    scores = scores_of(answer, citations=[["plus.md", "table.md"], ["standard.md", "table.md"]])

    assert (scores["recall@3"], scores["reciprocal_rank"], scores["citation_recall"]) == (1, 0.5, 1)


def test_nothing_retrieved_is_a_ranking_of_zero() -> None:
    scores = scores_of(reply("no"), citations=["a.md"])

    assert (scores["recall@10"], scores["ndcg@10"], scores["reciprocal_rank"]) == (0, 0, 0)


def test_file_without_a_page_stands_for_all_its_pages() -> None:
    scores = scores_of(reply("Yes [a.pdf#page=4].", ["a.pdf#page=4"]), citations=["a.pdf"])

    assert (scores["recall@3"], scores["citation_recall"], scores["citation_precision"]) == (
        1,
        1,
        1,
    )


def test_citations_are_compared_with_files_passages_and_expectations() -> None:
    answer = reply(
        "One [a.md]. Two [b.md][forged.md], [other.pdf#page=2]. Not a[0], [x] nor [c.md](http://c)",
        ["a.md", "b.md"],
        missing_files=("forged.md",),
    )

    scores = scores_of(answer, citations=["a.md", "z.md"])

    assert scores["citations_exist"] == 3 / 4
    assert scores["citations_retrieved"] == 2 / 4
    assert scores["citation_precision"] == 1 / 4
    assert scores["citation_recall"] == 1 / 2


def test_answer_without_citations_has_no_precision_but_a_recall() -> None:
    scores = scores_of(reply("Yes."), citations=["a.md"])

    assert scores["citation_recall"] == 0
    assert not scores.keys() & {"citations_exist", "citations_retrieved", "citation_precision"}


def test_facts_ignore_case_white_space_and_the_form_of_apostrophes() -> None:
    answer = reply("A doctor\N{RIGHT SINGLE QUOTATION MARK}s  NOTE after three\ndays.", ["x.md"])

    scores = scores_of(
        answer, facts=["doctor's note", ["3 days", "three days"], "text of X.MD", "five"]
    )

    assert scores["facts_found"] == 2 / 4
    assert scores["facts_retrieved"] == 1 / 4


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("I don't know.", True),
        ("I don\N{RIGHT SINGLE QUOTATION MARK}t know: no passage was found.", True),
        ("I'm sorry, but I do not have that information.", True),
        ("The sources do not mention acupuncture.", True),
        ("There is no information about that in the documents.", True),
        ("The price is not mentioned in the documents.", True),
        ("Das weiß ich nicht.", True),
        ("Northwind Standard does not cover hearing aids [a.md].", False),
        ("You don't have to pay for vaccinations.", False),
        ("From the documents: - The plan does not pay for crowns. [a.md]", False),
        ("20 days [a.md]. " + "More words. " * 20 + "I don't know the rest.", False),
        ("", False),
    ],
)
def test_answer_that_begins_so_is_an_abstention(content: str, expected: bool) -> None:
    assert is_abstention(content) is expected


def test_unanswerable_question_has_the_score_of_its_abstention() -> None:
    right, wrong = reply("I don't know."), reply("Paris [a.md].", ["a.md"])

    assert scores_of(right, answerable=False)["abstention"] == 1
    assert scores_of(wrong, answerable=False)["abstention"] == 0
    assert "answered" not in scores_of(right, answerable=False)


@pytest.mark.parametrize(
    ("content", "expected"), [("Yes.", 1), ("I don't know.", 0), ("", 0), (" \n", 0)]
)
def test_answerable_question_wants_an_answer(content: str, expected: float) -> None:
    assert scores_of(reply(content))["answered"] == expected


def test_refusals_are_those_of_the_filter_and_of_the_model() -> None:
    filtered = reply("", finish_reason="content_filter")

    assert is_refusal(filtered)
    assert is_refusal(reply("I'm sorry, but I can't assist with that."))
    assert not is_refusal(reply("I can't find it [a.md].", finish_reason="stop"))
    assert scores_of(filtered)["refused"] == 1
    assert scores_of(filtered)["answered"] == 0


def test_cost_is_that_of_a_thousand_answers() -> None:
    answer = reply("Yes.", prompt_tokens=2000, completion_tokens=300)

    scores = score(Record(question=Question(question="a?"), reply=answer), Prices(0.75, 4.5))

    assert scores["cost"] == pytest.approx(2000 * 0.75 / 1000 + 300 * 4.5 / 1000)
    assert scores["words"] == 1
    assert (scores["seconds_to_first_token"], scores["seconds"]) == (0.25, 0.5)


def test_answer_without_usage_has_no_tokens_and_no_cost() -> None:
    scores = score(Record(question=Question(question="a?"), reply=reply("Yes.")), Prices(1, 1))

    assert not scores.keys() & {"prompt_tokens", "completion_tokens", "cost"}


def test_failure_has_no_scores() -> None:
    failure = Failure(status=500, message="broken")

    assert score(Record(question=Question(question="a?"), failure=failure)) == {}


def test_every_score_is_explained() -> None:
    answer = reply("Yes [a.md].", ["a.md"], prompt_tokens=1, completion_tokens=1)
    question = Question(question="a?", citations=(("a.md",),), facts=(("yes",),))

    scores = score(Record(question=question, reply=answer), Prices(1, 1))

    assert scores.keys() <= METRICS.keys()
