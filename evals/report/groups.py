"""The questions of a run under headings, in the order in which they deserve a look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evals.metrics import METRICS
from evals.questions import Question
from evals.records import Failure
from evals.report.answers import Answer, Score
from evals.runs import Row, Run


@dataclass(frozen=True, slots=True)
class Group:
    """Answers under a heading."""

    heading: str
    order: str  # a sentence on how they are sorted
    answers: tuple[Answer, ...]


CHANGED = "Questions whose rates changed"
NEW = "Questions answered in this run only"
UNCHANGED = "Questions whose rates are the same"
SHORT = "Answers that fall short"
BEST = "Answers without a shortfall"
WORST_FIRST = "The worst first, by the mean of their rates."
ORDER = {
    CHANGED: "The greatest change first, by the mean change of their rates.",
    NEW: WORST_FIRST,
    UNCHANGED: WORST_FIRST,
    SHORT: WORST_FIRST,
    BEST: "In the order of the questions.",
}


@dataclass(frozen=True, slots=True)
class FailureLine:
    """A question without an answer."""

    question: Question
    failure: Failure
    before: str  # what became of it in the run before


def list_failures(run: Run, before: Run | None) -> tuple[FailureLine, ...]:
    """Return the failures, those first that the run before has an answer for."""
    rows = _by_id(before)
    lines = [
        FailureLine(row.record.question, row.record.failure, _outcome(rows.get(id)))
        for id, row in _by_id(run).items()
        if row.record.failure
    ]
    return tuple(sorted(lines, key=lambda line: line.before != "answered"))


def group_answers(run: Run, before: Run | None) -> tuple[Group, ...]:
    """Return the answers, the greatest change first, and without a run before the worst."""
    rows = _by_id(before)
    answers = [_answer(row, rows.get(id)) for id, row in _by_id(run).items() if row.record.reply]
    answers.sort(key=lambda answer: answer.weight, reverse=True)
    groups = {heading: list[Answer]() for heading in ORDER}
    for answer in answers:
        groups[_heading(answer, before)].append(answer)
    return tuple(
        Group(heading, ORDER[heading], tuple(each)) for heading, each in groups.items() if each
    )


def _heading(answer: Answer, before: Run | None) -> str:
    if before is None:
        return SHORT if answer.shortfalls else BEST
    if len(answer.replies) == 1:
        return NEW
    return CHANGED if answer.changes else UNCHANGED


def _answer(row: Row, before: Row | None) -> Answer:
    rows = [each for each in (before, row) if each and each.record.reply]
    old: Mapping[str, float] = before.scores if before else {}
    scores = tuple(
        Score(metric, row.scores.get(name), old.get(name))
        for name, metric in METRICS.items()
        if name in row.scores or name in old
    )
    replies = tuple(each.record.reply for each in rows if each.record.reply)
    return Answer(row.record.question, replies, scores, tuple(each.judgement for each in rows))


def _by_id(run: Run | None) -> dict[str, Row]:
    return {row.record.question.id: row for row in run.rows} if run else {}


def _outcome(row: Row | None) -> str:
    if row is None:
        return "not in the run"
    return "failed, too" if row.record.failure else "answered"
