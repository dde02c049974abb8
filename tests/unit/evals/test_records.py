"""Tests of the results of a run, which a killed run leaves behind."""

from __future__ import annotations

from pathlib import Path

from evals.files import append
from evals.questions import Question
from evals.records import Failure, Passage, Record, Reply, read_records

QUESTION = Question(question="a?", facts=(("b",),))
REPLY = Reply(
    content="b [x.md]",
    passages=(Passage(name="x.md", text="b"),),
    seconds_to_first_token=0.1,
    seconds=0.2,
)


def test_last_record_of_a_question_counts(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    append(path, Record(question=QUESTION, failure=Failure(status=503, message="busy")))
    append(path, Record(question=QUESTION, reply=REPLY))

    assert read_records(path) == {QUESTION.id: Record(question=QUESTION, reply=REPLY)}


def test_line_that_a_killed_run_cut_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    append(path, Record(question=QUESTION, reply=REPLY))
    path.write_bytes(path.read_bytes() + b'{"question": {"quest')
    other = Record(question=Question(question="c?"), reply=REPLY)
    append(path, other)

    assert list(read_records(path).values()) == [Record(question=QUESTION, reply=REPLY), other]


def test_run_without_results_has_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path / "absent.jsonl") == {}
