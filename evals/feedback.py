"""Turns answers that users rated as not helpful into questions, for you to say what was expected.

Reads the copies of answers alone, which users have agreed to; never a conversation.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from evals.json_replies import describe
from evals.questions import Question, read_questions
from evals.records import RUNS
from scripts.private_file import write_private
from shared import settings as configuration
from shared.bootstrap.clients import Clients
from shared.bootstrap.copies import make_copies
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.domain.errors import ChatError
from shared.memory.copies import AnswerCopy
from shared.settings import SettingsError
from shared.telemetry.access_log import quiet_libraries

OUTPUT = RUNS / "feedback.jsonl"
TAG = "feedback"
NO_COPIES = (
    "There is no new copy of an answer that was rated as not helpful. Users agree to one below an "
    "answer, where FEEDBACK_COPIES is on (docs/answer-copies.md)."
)
EXISTS = (
    "{path} exists. Move the questions that you have worked on to a file of your own. Then run the "
    "command again with --overwrite, and with --compare FILE, which leaves those out "
    "(make eval-feedback QUESTIONS=FILE ARGS=--overwrite)."
)
SAME_FILE = "--compare must name another file than --output, which is written anew."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--output", type=Path, default=OUTPUT, help="the file (build/evals/feedback.jsonl)")
    add("--overwrite", action="store_true", help="replace the file, with what you have edited")
    add("--compare", type=Path, metavar="FILE", help="leave out its questions")
    add("--cosmos", metavar="URL", help="the Azure Cosmos DB account of the app, by your sign-in")


def main(options: argparse.Namespace) -> int:
    """Write the questions. Returns the exit status: 1 if the store fails.

    Raises EvaluationError, UsageError.
    """
    return run(options, os.environ)


def run(options: argparse.Namespace, variables: Mapping[str, str]) -> int:
    """Do the work of `main`, with the variables of the environment."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    others = read_questions(options.compare) if options.compare else ()
    if options.compare and options.compare.resolve() == options.output.resolve():
        raise UsageError(SAME_FILE)
    if options.output.exists() and not options.overwrite:
        raise UsageError(EXISTS.format(path=options.output))
    environment = read_environment(variables)
    if options.cosmos:
        environment["AZURE_COSMOS_ENDPOINT"] = options.cosmos
    try:
        copies = asyncio.run(read_copies(environment))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    except ChatError as error:
        print(describe(error), file=sys.stderr)
        return 1
    questions = make_questions(copies, others)
    if options.output.exists() and not questions:
        print(f"{options.output} is removed.")
    write(options.output, questions)
    for line in describe_file(options.output, questions):
        print(line)
    return 0


async def read_copies(environment: Mapping[str, str]) -> Sequence[AnswerCopy]:
    """Read the copies of the app with these settings. Raises SettingsError, ChatErrors."""
    async with AsyncExitStack() as stack:
        clients = Clients(configuration.read_settings(environment))
        stack.push_async_callback(clients.close)
        copies = make_copies(clients)
        stack.push_async_callback(copies.close)
        return await copies.all()


def make_questions(
    copies: Iterable[AnswerCopy], others: Iterable[Question] = ()
) -> tuple[Question, ...]:
    """Return the questions of bad ratings that the `others` do not have, each once.

    The others may have them with fewer earlier questions.
    """
    known = {question.id for question in others}
    questions = dict[str, Question]()
    for copy in copies:
        if copy.rating == "down" and copy.question.strip():
            new = to_question(copy)
            if known.isdisjoint(ids_without_earlier(new)):
                questions[new.id] = merge(questions.get(new.id), new)
    return tuple(questions.values())


def to_question(copy: AnswerCopy) -> Question:
    """Return the question of a copy: its expectations are open."""
    lines = [f"Copy {copy.id}, {copy.day}"]
    if copy.comment:
        lines.append(f"Comment: {copy.comment}")
    lines += [f"Earlier answer: {each.answer}" for each in copy.earlier]
    lines.append(f"Answer: {copy.answer}")
    return Question(
        question=copy.question.strip(),
        history=tuple(each.question.strip() for each in copy.earlier if each.question.strip()),
        tags=(TAG, *copy.reasons),
        note="\n".join(lines),
    )


def ids_without_earlier(question: Question) -> Iterator[str]:
    """Yield the id of a question, and those that it has without the first ones of its history."""
    for start in range(len(question.history) + 1):
        yield question.model_copy(update={"history": question.history[start:]}).id


def merge(existing: Question | None, new: Question) -> Question:
    """Return a question with the tags and the note of another copy of it."""
    if existing is None:
        return new
    tags = tuple(dict.fromkeys((*existing.tags, *new.tags)))
    note = "\n".join(filter(None, (existing.note, new.note)))
    return existing.model_copy(update={"tags": tags, "note": note})


def describe_file(path: Path, questions: Sequence[Question]) -> Iterator[str]:
    """Yield the lines of a summary."""
    if not questions:
        yield NO_COPIES
        return
    yield f"Questions in {path}: {len(questions)}."
    yield "Say what was expected (citations, facts, reference), then use them:"
    yield f"    make eval QUESTIONS={path}"


def write(path: Path, questions: Sequence[Question]) -> None:
    """Write the file in one step; without questions there is none, not even an earlier one."""
    if not questions:
        path.unlink(missing_ok=True)
        return
    lines = [question.model_dump_json(exclude_defaults=True) + "\n" for question in questions]
    write_private(path, "".join(lines))  # what users wrote is private
