"""What a run keeps of each question: one JSON object a line, written as the answer arrives."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from evals.files import read_results
from evals.questions import Question

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "build" / "evals"

Support = Literal["supported", "not_supported", "no_claim"]
"""Whether the passages support a sentence, if it claims something."""


class Passage(BaseModel):
    """A passage that the app retrieved: the name it is cited by, and its text."""

    model_config = ConfigDict(frozen=True)

    name: str
    text: str


class Reply(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True)

    content: str
    passages: tuple[Passage, ...]  # in the order of the prompt
    missing_files: tuple[str, ...] = ()  # cited names that the app cannot open
    finish_reason: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds_to_first_token: float  # since the request
    seconds: float  # since the request


class Failure(BaseModel):
    """Why there is no answer: the status, if there is one, and the message of the error."""

    model_config = ConfigDict(frozen=True)

    status: int | None = None
    message: str


class Record(BaseModel):
    """A question with its answer, or with the failure to get one."""

    model_config = ConfigDict(frozen=True)

    question: Question
    reply: Reply | None = None
    failure: Failure | None = None


class SentenceJudgement(BaseModel):
    """A sentence with its verdict, and the passage that supports it."""

    model_config = ConfigDict(frozen=True)

    sentence: str
    verdict: Support
    passage: str | None = None


class Judgement(BaseModel):
    """The verdicts of a judge on an answer."""

    model_config = ConfigDict(frozen=True)

    key: str  # the same as long as the judge and its requests are
    judge: str
    question: str
    scores: dict[str, float] = {}  # by the metric, from 0 to 1
    reasons: dict[str, str] = {}  # of ratings, by the metric
    failures: dict[str, str] = {}  # why there is no score, by the metric
    sentences: tuple[SentenceJudgement, ...] = ()


def read_records(path: Path) -> dict[str, Record]:
    """Read the last record of each question, by its id."""
    return {record.question.id: record for record in read_results(path, Record)}
