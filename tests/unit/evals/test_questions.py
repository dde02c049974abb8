"""Tests of reading the questions of an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.files import FileError
from evals.questions import SAMPLE_QUESTIONS, Question, read_questions


def write(folder: Path, *lines: str) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_single_text_stands_for_its_alternatives(tmp_path: Path) -> None:
    path = write(tmp_path, '{"question": "a?", "citations": ["x.md", ["y.md", "z.md"]]}', "")

    assert read_questions(path)[0].citations == (("x.md",), ("y.md", "z.md"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1: the object: Invalid JSON"),
        (['{"question": "a?"}', '{"question": ""}'], "line 2: question: "),
        (['{"question": "a?", "fact": ["b"]}'], "line 1: fact: Extra inputs"),
        (['{"question": "a?", "facts": [[]]}'], "line 1: facts.0: "),
        (['{"question": "a?"}', '{"question": "a?"}'], "line 2: this question is there twice"),
        ([""], "has no question"),
    ],
)
def test_error_names_the_line_and_the_key(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(FileError) as caught:
        read_questions(write(tmp_path, *lines))

    assert message in str(caught.value)


def test_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"absent\.jsonl cannot be read"):
        read_questions(tmp_path / "absent.jsonl")


def test_id_depends_on_the_conversation_alone() -> None:
    question = Question(question="And for a family?", history=("What is the premium?",))

    assert question.id == question.model_copy(update={"facts": (("$340",),)}).id
    assert question.id != Question(question="And for a family?").id


@pytest.mark.parametrize("question", read_questions(SAMPLE_QUESTIONS), ids=lambda each: each.id)
def test_sample_question_has_an_expectation_and_a_topic(question: Question) -> None:
    expectations = question.citations, question.facts, question.reference

    assert [bool(each) for each in expectations] == [question.answerable] * 3
    assert question.tags[0] in {"health", "handbook", "roles", "other"}
    assert ("unanswerable" in question.tags) == (not question.answerable)


@pytest.mark.parametrize("question", read_questions(SAMPLE_QUESTIONS), ids=lambda each: each.id)
def test_reference_of_a_sample_question_has_its_facts(question: Question) -> None:
    reference = (question.reference or "").lower()
    absent = [
        facts
        for facts in question.facts
        if not any(alternative.lower() in reference for alternative in facts)
    ]

    assert absent == []
