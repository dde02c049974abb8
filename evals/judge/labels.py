"""Answers with labels by hand, which measure a judge before it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evals.files import read_lines
from evals.judge.sentences import sentences
from evals.questions import Question
from evals.records import Judgement, Passage, Reply, Support
from evals.statistics import Interval, interval

LABELS = Path(__file__).with_name("labels.jsonl")
PASS = 0.75  # a rating of 4 or 5: the answer is relevant, or complete
# The lower bound that a judge must reach by each metric: with 40 answers, it has to be right in
# five of six. One that always says the same is right in 25 of 40 at most, a lower bound of 0.5.
MIN_AGREEMENT = 0.7


class Label(BaseModel):
    """An answer with the verdicts of a person: one for each sentence, and on the whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: str  # what makes it a test of the judge
    question: Question
    passages: tuple[Passage, ...]
    answer: str
    verdicts: Annotated[tuple[Support, ...], Field(min_length=1)]
    relevant: bool
    complete: bool | None = None  # of a reference answer

    @property
    def reply(self) -> Reply:
        """The answer, as a run has it."""
        return Reply(
            content=self.answer, passages=self.passages, seconds_to_first_token=0, seconds=0
        )

    @model_validator(mode="after")
    def _check(self) -> Label:
        parts = sentences(self.reply)
        if len(parts) != len(self.verdicts):
            raise ValueError(f"there must be a verdict for each of {len(parts)} sentences: {parts}")
        if (self.complete is None) != (self.question.reference is None):
            raise ValueError("complete and the question's reference need each other")
        return self


def read_labels(path: Path) -> tuple[Label, ...]:
    """Read a file of labels. Raises FileError."""
    return tuple(label for _, label in read_lines(path, Label))


def measure_agreement(
    labels: Sequence[Label], judgements: Sequence[Judgement]
) -> Mapping[str, Interval]:
    """Return the mean agreement of judgements with their labels, by the metric.

    For groundedness that of a label is the share of its sentences. A failure agrees with nothing.
    """
    values = dict[str, list[float]]()
    for label, judgement in zip(labels, judgements, strict=True):
        for metric, value in _agreement(label, judgement):
            values.setdefault(metric, []).append(value)
    return {metric: interval(figures) for metric, figures in values.items()}


def _agreement(label: Label, judgement: Judgement) -> Iterator[tuple[str, float]]:
    pairs = zip(label.verdicts, judgement.sentences, strict=False)  # a failure has no sentences
    agreed = sum(expected == each.verdict for expected, each in pairs)
    yield "groundedness", agreed / len(label.verdicts)
    for metric, expected in (("relevance", label.relevant), ("completeness", label.complete)):
        if expected is not None:
            score = judgement.scores.get(metric)
            yield metric, float(score is not None and (score >= PASS) == expected)
