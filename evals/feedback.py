"""Turns answers that users rated as not helpful into questions, for you to say what was expected.

Reads the copies of answers alone, which users have agreed to; never a conversation.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.json_replies import describe
from evals.questions import Question, read_questions
from evals.records import RUNS
from shared import settings as configuration
from shared.bootstrap.clients import Clients
from shared.bootstrap.copies import open_copies
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.domain.errors import ChatError
from shared.memory.copies import AnswerCopy
from shared.settings import SettingsError
from shared.telemetry.access_log import quiet_libraries

OUTPUT = RUNS / "feedback.jsonl"
TAG = "feedback"
COPY = re.compile(r"^Copy ([0-9a-f]{32})\b", re.MULTILINE)
NO_COPIES = (
    "There is no copy of an answer that was rated as not helpful. Users agree to one below an "
    "answer, where FEEDBACK_COPIES is on (docs/feedback.md)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add = parser.add_argument
    add("--output", type=Path, default=OUTPUT, help="the file (build/evals/feedback.jsonl)")
    add("--cosmos", metavar="URL", help="the Azure Cosmos DB account of the app, by your sign-in")


def main(options: argparse.Namespace) -> int:
    """Write the questions. Returns the exit status: 1 if the store fails.

    Raises EvaluationError, UsageError.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    environment = read_environment(os.environ)
    if options.cosmos:
        environment["AZURE_COSMOS_ENDPOINT"] = options.cosmos
    try:
        copies = asyncio.run(read_copies(environment))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    except ChatError as error:
        print(describe(error), file=sys.stderr)
        return 1
    existing = read_questions(options.output) if has_text(options.output) else ()
    update = update_questions(existing, copies)
    if update.questions or existing:
        write(options.output, update.questions)
    for line in update.describe(options.output):
        print(line)
    return 0


async def read_copies(environment: Mapping[str, str]) -> Sequence[AnswerCopy]:
    """Read the copies of the app with these settings. Raises SettingsError, ChatErrors."""
    clients = Clients(configuration.read_settings(environment))
    try:
        copies = open_copies(clients)
        try:
            return await copies.all()
        finally:
            await copies.close()
    finally:
        await clients.close()


@dataclass(frozen=True, slots=True)
class Update:
    """The questions of the file, and what has changed in it."""

    questions: tuple[Question, ...]
    added: int = 0
    removed: int = 0  # their copies are gone, and nobody has said what was expected
    without_copy: tuple[str, ...] = ()  # questions whose copies are gone, but for those removed

    def describe(self, path: Path) -> Iterator[str]:
        """Yield the lines of a summary."""
        if not self.questions:
            yield NO_COPIES
        else:
            yield f"{len(self.questions)} questions in {path}, {self.added} of them new."
        if self.removed:
            yield f"{self.removed} were removed: their copies are deleted or expired."
        for question in self.without_copy:
            yield f"Its copy is deleted or expired: use your own words for {question!r}."
        if self.questions:
            yield "Say what was expected (citations, facts, reference), then use them:"
            yield f"    make eval QUESTIONS={path}"


def update_questions(existing: Iterable[Question], copies: Iterable[AnswerCopy]) -> Update:
    """Return the questions of a file after new copies, and after deletions.

    What a person has edited stays as it is.
    """
    bad = [copy for copy in copies if copy.rating == "down" and copy.question.strip()]
    known = {copy.id for copy in bad}
    kept, gone = list[Question](), list[Question]()
    for question in existing:
        ids = copy_ids(question)
        (gone if ids and not ids & known else kept).append(question)
    edited = [question for question in gone if has_expectation(question)]
    questions = {question.id: question for question in (*kept, *edited)}
    noted = set().union(*map(copy_ids, questions.values()))
    count = len(questions)
    for copy in bad:
        if copy.id not in noted:
            new = to_question(copy)
            questions[new.id] = merge(questions.get(new.id), new)
    return Update(
        tuple(questions.values()),
        added=len(questions) - count,
        removed=len(gone) - len(edited),
        without_copy=tuple(question.question for question in edited),
    )


def to_question(copy: AnswerCopy) -> Question:
    """Return the question of a copy: its expectations are open."""
    lines = [f"Copy {copy.id}, {copy.day}."]
    if copy.comment:
        lines.append(f"Comment: {copy.comment}")
    lines.append(f"Answer: {copy.answer}")
    tags = (TAG, *copy.reasons)
    return Question(question=copy.question.strip(), tags=tags, note="\n".join(lines))


def merge(existing: Question | None, new: Question) -> Question:
    """Return a question with the tags and the note of another copy of it."""
    if existing is None:
        return new
    tags = tuple(dict.fromkeys((*existing.tags, *new.tags)))
    note = "\n".join(filter(None, (existing.note, new.note)))
    return existing.model_copy(update={"tags": tags, "note": note})


def copy_ids(question: Question) -> set[str]:
    """Return the ids of the copies that the note of a question names."""
    return set(COPY.findall(question.note or ""))


def has_expectation(question: Question) -> bool:
    """Return whether a person has said what a good answer has."""
    expected = question.citations or question.facts or question.reference or question.history
    return bool(expected) or not question.answerable


def has_text(path: Path) -> bool:
    """Return whether a file has more than white space."""
    return path.is_file() and bool(path.read_bytes().strip())


def write(path: Path, questions: Iterable[Question]) -> None:
    """Write the file in one step: a crash leaves the old one, or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [question.model_dump_json(exclude_defaults=True) + "\n" for question in questions]
    new = path.with_name(f"{path.name}.new")
    new.write_text("".join(lines), "utf-8")
    new.replace(path)
