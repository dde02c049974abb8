"""Runs of an evaluation, made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evals.questions import Question
from evals.records import Failure, Passage, Record, Reply
from evals.runs import Row, Run


def answer(
    question: Question | str,
    content: str,
    scores: Mapping[str, float] | None = None,
    passages: Mapping[str, str] | None = None,
    **fields: Any,
) -> Row:
    """A question with its answer. `passages`: their texts by their names."""
    reply = Reply(
        content=content,
        passages=tuple(Passage(name=name, text=text) for name, text in (passages or {}).items()),
        seconds_to_first_token=0.1,
        seconds=0.2,
        **fields,
    )
    return Row(Record(question=_question(question), reply=reply), scores or {"refused": 0.0})


def failure(question: Question | str, message: str, status: int | None = None) -> Row:
    """A question without an answer."""
    failure = Failure(status=status, message=message)
    return Row(Record(question=_question(question), failure=failure), {})


def run(*rows: Row, name: str = "now") -> Run:
    """A run of these rows."""
    return Run(name, "http://app.test, model demo", "2026-11-23T04:20:00+00:00", rows)


def _question(question: Question | str) -> Question:
    return Question(question=question) if isinstance(question, str) else question
