"""Answers that users rated as not helpful become questions of the evaluation."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from evals import feedback
from evals.feedback import make_questions, to_question
from evals.questions import Question, read_questions
from shared.bootstrap.local_settings import UsageError
from shared.memory.copies import AnswerCopy, EarlierTurn
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
    others = [replace(OTHER, rating="up"), replace(OTHER, question=" ")]

    assert make_questions([BAD, *others]) == (
        Question(
            question="How many days?",
            tags=("feedback", "incorrect", "incomplete"),
            note=f"Copy {BAD.id}, 2026-11-26\nComment: It is 30.\nAnswer: 20 days.\nOr so.",
        ),
    )


def test_earlier_questions_are_the_history_of_a_question() -> None:
    earlier = (EarlierTurn(" Which plan? ", "Plus."), EarlierTurn("Since when?", "2020.\nOr so."))
    (question,) = make_questions([replace(BAD, earlier=earlier)])

    assert question.history == ("Which plan?", "Since when?")
    assert question.note == (
        f"Copy {BAD.id}, 2026-11-26\nComment: It is 30.\nEarlier answer: Plus.\n"
        "Earlier answer: 2020.\nOr so.\nAnswer: 20 days.\nOr so."
    )


def test_a_question_after_others_is_another_question() -> None:
    after = replace(SAME, earlier=(EarlierTurn("Which plan?", "Plus."),))

    assert [each.history for each in make_questions([BAD, after])] == [(), ("Which plan?",)]


def test_copies_of_one_question_are_one_question() -> None:
    (question,) = make_questions([BAD, SAME])

    assert question.tags == ("feedback", "incorrect", "incomplete", "unsupported")
    assert question.note == f"{to_question(BAD).note}\n{to_question(SAME).note}"


def test_questions_of_another_file_are_left_out() -> None:
    own = Question(question="How many days?", facts=(("30 days",),))

    assert make_questions([BAD, OTHER, SAME], [own]) == (to_question(OTHER),)


def test_questions_whose_history_was_shortened_are_left_out() -> None:
    earlier = (EarlierTurn("Which plan?", "Plus."), EarlierTurn("Since when?", "2020."))
    copy = replace(BAD, earlier=earlier)

    for history in (("Which plan?", "Since when?"), ("Since when?",), ()):
        own = Question(question="How many days?", history=history)
        assert make_questions([copy], [own]) == ()
    own = Question(question="How many days?", history=("Which plan?",))
    assert make_questions([copy], [own]) == (to_question(copy),)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    return {"MEMORY_FILE": str(tmp_path / "memory.db")}


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(
        output=tmp_path / "evals" / "feedback.jsonl", cosmos=None, overwrite=False, compare=None
    )


@pytest.mark.part("memory-file")
def test_the_command_reads_the_copies_of_the_app(
    options: argparse.Namespace,
    variables: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def put(*copies: AnswerCopy) -> None:
        store = open_copies(tmp_path / "memory.db", None)
        for each in copies:
            await store.put(each)
        await store.close()

    assert feedback.run(options, variables) == 0
    assert "There is no new copy of an answer" in capsys.readouterr().out
    assert not options.output.exists()
    asyncio.run(put(BAD, OTHER))
    assert feedback.run(options, variables) == 0
    printed = capsys.readouterr().out

    assert read_questions(options.output) == (to_question(BAD), to_question(OTHER))
    assert f"Questions in {options.output}: 2." in printed
    assert options.output.stat().st_mode & 0o777 == 0o600
    assert f"make eval QUESTIONS={options.output}" in printed


@pytest.mark.part("memory-file")
def test_an_existing_file_is_replaced_only_if_asked(
    options: argparse.Namespace,
    variables: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = tmp_path / "own.jsonl"
    own.write_text('{"question": "Mine?"}\n')
    options.output.parent.mkdir()
    options.output.write_text('{"question": "Edited?"}\n')
    with pytest.raises(UsageError, match=r"Move the questions that you have worked on"):
        feedback.run(options, variables)
    assert options.output.read_text() == '{"question": "Edited?"}\n'
    options.overwrite, options.compare = True, options.output
    with pytest.raises(UsageError, match="another file"):
        feedback.run(options, variables)
    assert options.output.exists()
    options.compare = own

    assert feedback.run(options, variables) == 0
    assert not options.output.exists()  # the copies are gone, and so is the file
    assert f"{options.output} is removed." in capsys.readouterr().out


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\r\n", "\x0c", "\x1c"])
def test_any_line_break_of_a_comment_can_be_read_again(character: str, tmp_path: Path) -> None:
    copy = replace(BAD, comment=f"one{character}two", answer=f"a{character}b")
    path = tmp_path / "feedback.jsonl"
    feedback.write(path, make_questions([copy]))

    assert read_questions(path) == (to_question(copy),)


def test_without_a_store_the_command_says_what_to_set(options: argparse.Namespace) -> None:
    with pytest.raises(UsageError, match="set MEMORY_FILE or AZURE_COSMOS_ENDPOINT"):
        feedback.run(options, {"MEMORY_FILE": ""})
