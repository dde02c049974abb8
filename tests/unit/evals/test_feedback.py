"""Answers that users rated as not helpful become questions, whose edits stay."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from evals import feedback
from evals.feedback import COPY, to_question, update_questions
from evals.questions import Question, read_questions
from shared.bootstrap.local_settings import UsageError
from shared.memory.copies import AnswerCopy
from shared.memory.sqlite.copies import open_copies

BAD = AnswerCopy(
    id="a" * 32,
    day="2026-11-26",
    question=" How many days? ",
    answer="20 days.\nOr so.",
    rating="down",
    reasons=("incorrect", "incomplete"),
    comment="It is 30.",
)
OTHER = replace(BAD, id="b" * 32, question="Which plan?", reasons=(), comment="")
SAME = replace(BAD, id="c" * 32, reasons=("unsupported",), comment="No source.")


def test_a_bad_rating_becomes_a_question_whose_expectations_are_open() -> None:
    update = update_questions((), [BAD, replace(OTHER, rating="up"), replace(OTHER, question=" ")])

    assert update.questions == (
        Question(
            question="How many days?",
            tags=("feedback", "incorrect", "incomplete"),
            note=f"Copy {BAD.id}, 2026-11-26.\nComment: It is 30.\nAnswer: 20 days.\nOr so.",
        ),
    )
    assert (update.added, update.removed, update.without_copy) == (1, 0, ())


def test_copies_of_one_question_are_one_question() -> None:
    (question,) = update_questions((), [BAD, SAME]).questions

    assert question.tags == ("feedback", "incorrect", "incomplete", "unsupported")
    assert COPY.findall(question.note or "") == [BAD.id, SAME.id]


def test_a_second_run_adds_what_is_new_and_keeps_edits() -> None:
    edited = to_question(BAD).model_copy(update={"facts": (("30 days",),)})
    update = update_questions([edited], [BAD, OTHER])

    assert update.questions == (edited, to_question(OTHER))
    assert update.added == 1
    assert update_questions(update.questions, [BAD, OTHER]).added == 0


def test_a_new_copy_of_an_edited_question_is_noted_in_it() -> None:
    edited = to_question(BAD).model_copy(update={"facts": (("30 days",),)})
    update = update_questions([edited], [BAD, SAME])

    (question,) = update.questions
    assert question.facts == (("30 days",),)
    assert COPY.findall(question.note or "") == [BAD.id, SAME.id]
    assert update.added == 0


def test_a_question_goes_with_its_copy_unless_it_was_edited() -> None:
    edited = to_question(OTHER).model_copy(update={"answerable": False})
    own = Question(question="My own?")
    update = update_questions([to_question(BAD), edited, own], [])

    assert set(update.questions) == {edited, own}
    assert (update.removed, update.without_copy) == (1, ("Which plan?",))


def test_a_question_stays_while_one_of_its_copies_is_there() -> None:
    (both,) = update_questions((), [BAD, SAME]).questions

    assert update_questions([both], [SAME]).questions == (both,)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    monkeypatch.setenv("MEMORY_FILE", str(tmp_path / "memory.db"))
    return argparse.Namespace(output=tmp_path / "evals" / "feedback.jsonl", cosmos=None)


@pytest.mark.part("memory-file")
def test_the_command_reads_the_copies_of_the_app(
    options: argparse.Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def put(*copies: AnswerCopy) -> None:
        store = open_copies(tmp_path / "memory.db", None)
        for each in copies:
            await store.put(each)
        await store.close()

    assert feedback.main(options) == 0
    assert "There is no copy of an answer" in capsys.readouterr().out
    assert not options.output.exists()
    asyncio.run(put(BAD, OTHER))
    assert feedback.main(options) == 0
    printed = capsys.readouterr().out

    assert read_questions(options.output) == (to_question(BAD), to_question(OTHER))
    assert f"2 questions in {options.output}, 2 of them new." in printed
    assert f"make eval QUESTIONS={options.output}" in printed


def test_without_a_store_the_command_says_what_to_set(
    options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_FILE", "")
    with pytest.raises(UsageError, match="set MEMORY_FILE or AZURE_COSMOS_ENDPOINT"):
        feedback.main(options)
