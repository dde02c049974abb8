"""A run: the answers of one app to the questions, with the scores of each, and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evals.errors import EvaluationError
from evals.questions import Question
from evals.records import RUNS, Failure, Judgement, Record, read_records

ANSWERS, SUMMARY, REPORT = "answers.jsonl", "summary.json", "report.html"
_HEADER = "run.json"


class RunError(EvaluationError):
    """A run cannot be read or continued; the message says why."""


class RunHeader(BaseModel):
    """What a run asks: its name, the app with its model and index, the time it began (ISO 8601)."""

    model_config = ConfigDict(frozen=True)

    name: str
    target: str
    started: str

    @property
    def folder(self) -> Path:
        """The folder of the results."""
        return RUNS / self.name


@dataclass(frozen=True, slots=True)
class Row:
    """A question with its answer or failure, and the scores of the answer by their metric.

    A failure has no scores. An answer has those that apply to its question.
    """

    record: Record
    scores: Mapping[str, float]
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The rows of a run."""

    name: str
    target: str
    started: str  # a time in ISO 8601
    rows: Sequence[Row]  # in the order of the questions

    def scores(self, metric: str) -> dict[str, float]:
        """Return the scores of a metric by the id of the question."""
        return {
            row.record.question.id: row.scores[metric] for row in self.rows if metric in row.scores
        }

    @property
    def failures(self) -> Sequence[tuple[Question, Failure]]:
        """The questions without an answer, and why."""
        records = (row.record for row in self.rows)
        return [(each.question, each.failure) for each in records if each.failure]


def read_header(name: str) -> RunHeader | None:
    """Read the header of a run; None if there is no such run. Raises RunError."""
    path = RUNS / name / _HEADER
    try:
        return RunHeader.model_validate_json(path.read_bytes()) if path.exists() else None
    except (OSError, ValidationError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None


def write_header(header: RunHeader) -> None:
    """Create the folder of a run."""
    header.folder.mkdir(parents=True, exist_ok=True)
    (header.folder / _HEADER).write_text(header.model_dump_json(indent=2), "utf-8")


def read_answers(name: str, questions: Sequence[Question] | None = None) -> tuple[Record, ...]:
    """Read the records of a run: of these questions, with their present expectations, or of all.

    A question that was not asked has no record.
    """
    records = read_records(RUNS / name / ANSWERS)
    if questions is None:
        return tuple(records.values())
    return tuple(
        records[question.id].model_copy(update={"question": question})
        for question in questions
        if question.id in records
    )
