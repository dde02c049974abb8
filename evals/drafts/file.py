"""The file of the drafts, which a person may have edited between two runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from evals.drafts.drafter import MARKS, mark_duplicate
from evals.files import append
from evals.questions import Question, read_questions
from shared.domain.events import Source

MAX_FAILURES = 10  # in a row: then the model or the search is at fault, not the passages
LINE_START = b'{"question":'


@dataclass(slots=True)
class Drafts:
    """The questions of a file that shall have `count`, and why passages have none.

    Duplicates are those of `questions` and of the `others` of another file.
    """

    path: Path
    count: int
    questions: list[Question]
    others: Sequence[Question] = ()
    failures: list[str] = field(default_factory=list)
    failures_in_row: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether so many passages in a row had no question that others will have none."""
        return self.failures_in_row >= MAX_FAILURES

    @property
    def open_count(self) -> int:
        """How many questions to draft; 0 if that has failed."""
        return 0 if self.has_failed else max(0, self.count - len(self.questions))

    def add(self, passage: Source, outcome: Question | str) -> None:
        """Append the question of a passage to the file, or record why there is none."""
        if isinstance(outcome, Question) and outcome.id in {each.id for each in self.questions}:
            outcome = "the model repeats a question of the file"
        if isinstance(outcome, str):
            self.failures.append(f"{passage.sourcepage}: {outcome}")
            self.failures_in_row += 1
            return
        self.failures_in_row = 0
        question = mark_duplicate(outcome, (*self.others, *self.questions))
        append(self.path, question)
        self.questions.append(question)

    def describe(self) -> Iterator[str]:
        """Yield the lines of a summary."""
        yield f"{len(self.questions)} questions in {self.path}."
        marks = Counter(tag for question in self.questions for tag in question.tags)
        for mark in MARKS:
            if marks[mark]:
                yield f'{marks[mark]} have the tag "{mark}": their note says why.'
        if self.failures:
            yield f"{len(self.failures)} passages have no question."
        if self.open_count:
            yield "The index has no other passage that everybody may see."
        if self.questions:
            yield "Check each question, its facts and its reference, then use it:"
            yield f"    make eval QUESTIONS={self.path}"


def read_drafts(path: Path) -> list[Question]:
    """Read the drafts of an earlier run; none without a file. Raises FileError.

    A last line that the end of that run has cut is removed.
    """
    if not path.exists():
        return []
    if path.is_file():
        data = path.read_bytes()
        end = data.rfind(b"\n") + 1
        if data[end:].startswith(LINE_START) and not _is_question(data[end:]):
            os.truncate(path, end)
            data = data[:end]
        if not data.strip():
            return []
    return list(read_questions(path))


def _is_question(line: bytes) -> bool:
    try:
        Question.model_validate_json(line)
    except ValidationError:
        return False
    return True
