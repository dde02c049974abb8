"""Runs of an evaluation, made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evals.questions import Question
from evals.records import Failure, Judgement, Passage, Record, Reply, SentenceJudgement
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


def judge(row: Row, sentences: Mapping[str, Any], **fields: Any) -> Row:
    """The answer with the verdicts of a judge on its sentences."""
    verdicts = tuple(
        SentenceJudgement(sentence=sentence, verdict=verdict, passage="x.md")
        for sentence, verdict in sentences.items()
    )
    scores = {"relevance": 0.75}
    judgement = Judgement(
        key="k", judge="gpt", question="q", scores=scores, sentences=verdicts, **fields
    )
    return replace(row, judgement=judgement)


def failure(question: Question | str, message: str, status: int | None = None) -> Row:
    """A question without an answer."""
    failure = Failure(status=status, message=message)
    return Row(Record(question=_question(question), failure=failure), {})


def run(*rows: Row, name: str = "now") -> Run:
    """A run of these rows."""
    return Run(name, "http://app.test, model demo", "2026-11-23T04:20:00+00:00", rows)


def _question(question: Question | str) -> Question:
    return Question(question=question) if isinstance(question, str) else question
