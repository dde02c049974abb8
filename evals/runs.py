"""A run: the answers of one app to the questions, with the scores of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.records import Record


@dataclass(frozen=True, slots=True)
class Row:
    """A question with its answer or failure, and the scores of the answer by their metric.

    A failure has no scores. An answer has those that apply to its question.
    """

    record: Record
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Run:
    """The rows of a run, in the order of the questions. `started` is a time in ISO 8601."""

    name: str
    target: str
    started: str
    rows: Sequence[Row]

    def scores(self, metric: str) -> dict[str, float]:
        """Return the scores of a metric by the id of the question."""
        return {
            row.record.question.id: row.scores[metric] for row in self.rows if metric in row.scores
        }
