"""Tests of the gate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.files import FileError
from evals.gate import Gate, read_accepted, read_gate, write_accepted
from evals.questions import SAMPLE_QUESTIONS, Question, read_questions
from evals.records import Failure, Record, Reply
from evals.runs import Row, Run

ACCEPTED = Path("accepted.json")
GATE = Gate(accepted=ACCEPTED, confidence=0.99, no_worse=("facts_found", "words"), thresholds={})
REPLY = Reply(content="x", passages=(), seconds_to_first_token=0, seconds=0)


def run_of(values: Sequence[float], metric: str = "facts_found") -> Run:
    rows = [
        Row(Record(question=Question(question=f"{number}?"), reply=REPLY), {metric: value})
        for number, value in enumerate(values)
    ]
    return Run("a", "an app", "2026-01-01T00:00:00+00:00", rows)


def scores_of(run: Run) -> dict[str, dict[str, float]]:
    return {row.record.question.id: dict(row.scores) for row in run.rows}


@pytest.mark.parametrize(
    ("metric", "threshold", "values", "expected"),
    [
        ("facts_found", 0.8, [1.0] * 60 + [0.0] * 40, "facts_found: 0.600 (from 0.4"),
        ("facts_found", 0.8, [1.0] * 78 + [0.0] * 22, ""),  # under it, but the interval is not
        ("facts_found", 0.8, [1.0] * 100, ""),
        ("seconds", 2.0, [3.0] * 100, "is over the threshold 2"),
        ("seconds", 2.0, [1.0] * 100, ""),
        ("groundedness", 0.8, [], "no answer of this run has been measured"),
    ],
)
def test_threshold_fails_if_the_interval_lies_wholly_beyond(
    metric: str, threshold: float, values: list[float], expected: str
) -> None:
    gate = GATE.model_copy(update={"no_worse": (), "thresholds": {metric: threshold}})

    problems = list(gate.check(run_of(values, metric), {}))

    assert bool(problems) == bool(expected)
    assert expected in "".join(problems)


def test_some_worse_answers_fail_and_as_many_better_ones_make_it_noise() -> None:
    accepted = scores_of(run_of([1.0] * 90 + [0.0] * 10))

    worse = list(GATE.check(run_of([0.0] * 10 + [1.0] * 80 + [0.0] * 10), accepted))
    mixed = list(GATE.check(run_of([0.0] * 10 + [1.0] * 90), accepted))

    assert [problem.partition(" by ")[0] for problem in worse] == ["facts_found: changed"]
    assert mixed == []


def test_more_of_what_should_be_less_is_worse() -> None:
    accepted = scores_of(run_of([10.0] * 50, "words"))

    assert list(GATE.check(run_of([9.0] * 50, "words"), accepted)) == []
    assert len(list(GATE.check(run_of([11.0] * 50, "words"), accepted))) == 1


def test_question_without_an_answer_fails_the_gate() -> None:
    run = run_of([1.0] * 5)
    failure = Record(question=Question(question="b?"), failure=Failure(message="reset"))
    run = Run("a", "an app", run.started, [*run.rows, Row(failure, {})])

    assert list(GATE.check(run, {})) == ["1 of 6 questions have no answer"]


def test_accepted_scores_are_read_as_written(tmp_path: Path) -> None:
    run = run_of([1.0, 0.33333])
    path = tmp_path / "accepted.json"

    write_accepted(run, ("facts_found",), path)

    ids = [row.record.question.id for row in run.rows]
    assert read_accepted(path) == {ids[0]: {"facts_found": 1.0}, ids[1]: {"facts_found": 0.3333}}
    assert read_accepted(tmp_path / "absent.json") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "accepted = 'a'\nconfidence = 0.99\nno_worse = []\n[thresholds]\nrecal = 1",
            "no metric is called recal",
        ),
        ("accepted = 'a'\nconfidence = 2\nno_worse = []\n[thresholds]", "confidence: "),
        ("confidence = ", "gate.toml: "),
    ],
)
def test_error_names_the_rule(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(text)

    with pytest.raises(FileError) as caught:
        read_gate(path)

    assert message in str(caught.value)


def test_accepted_run_of_the_project_has_its_questions() -> None:
    accepted = read_accepted(read_gate().accepted)

    assert accepted.keys() == {question.id for question in read_questions(SAMPLE_QUESTIONS)}
