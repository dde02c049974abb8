"""The questions of a run: one JSON object a line, with what a good answer has."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from evals.files import FileError, read_lines

SAMPLE_QUESTIONS = Path(__file__).with_name("questions.jsonl")


def _alternatives(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
Alternatives = Annotated[tuple[Text, ...], BeforeValidator(_alternatives), Field(min_length=1)]
"""An expectation that any one of these texts meets. In JSON a single one may stand alone."""


class Question(BaseModel):
    """A question, and what a good answer to it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: Text
    # Earlier questions of the conversation, each asked and answered before
    history: tuple[Text, ...] = ()
    # Pages that hold the answer, as the app cites them (`plan.pdf#page=2`); a file without a page
    # stands for all its pages
    citations: tuple[Alternatives, ...] = ()
    facts: tuple[Alternatives, ...] = ()  # texts that the answer must contain
    reference: Text | None = None  # a complete answer, for a judge
    answerable: bool = True  # whether the documents have an answer; if not, a good answer says so
    tags: tuple[Text, ...] = ()
    # For whoever edits a draft: the text that a model wrote the question from
    passage: Text | None = None
    note: Text | None = None  # for whoever edits a draft: what to check

    @property
    def id(self) -> str:
        """The name of the question in results: the same as long as its conversation is."""
        conversation = json.dumps([*self.history, self.question])
        return hashlib.sha256(conversation.encode()).hexdigest()[:12]


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read a file of questions. Raises FileError."""
    questions: dict[str, Question] = {}
    for place, question in read_lines(path, Question):
        if question.id in questions:
            raise FileError(f"{place}: this question is there twice.")
        questions[question.id] = question
    if not questions:
        raise FileError(f"{path} has no question.")
    return tuple(questions.values())
