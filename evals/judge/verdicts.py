"""The requests to a judge about an answer, and the verdicts that it may give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import to_json

from evals.judge.sentences import sentences
from evals.metrics import is_abstention
from evals.questions import Question
from evals.records import Reply, Support
from shared.domain.messages import Message

PROMPTS = Path(__file__).with_name("prompts")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class SentenceVerdict(_Strict):
    """Whether a sentence is supported, and by which passage."""

    number: int
    verdict: Support
    passage: str | None


class Grounding(_Strict):
    """The verdicts on all sentences of an answer."""

    sentences: tuple[SentenceVerdict, ...]

    @model_validator(mode="after")
    def _check_request(self, info: ValidationInfo) -> Grounding:
        """Compare with the request: the context has its names and its number of sentences."""
        context = info.context or {}
        if [each.number for each in self.sentences] != list(range(1, context["count"] + 1)):
            raise ValueError("there must be one entry for each sentence, in their order")
        supported = [each for each in self.sentences if each.verdict == "supported"]
        if any(each.passage not in context["names"] for each in supported):
            raise ValueError("what supports a sentence must be the name of a passage")
        return self

    @property
    def score(self) -> float | None:
        """The share of the claims that are supported; None without a claim."""
        claims = [each.verdict for each in self.sentences if each.verdict != "no_claim"]
        return claims.count("supported") / len(claims) if claims else None


class Rating(_Strict):
    """A rating after its reason."""

    reason: str
    rating: Annotated[int, Field(ge=1, le=5)]

    @property
    def score(self) -> float:
        """The rating from 0 to 1."""
        return (self.rating - 1) / 4


Verdict = Grounding | Rating


@dataclass(frozen=True, slots=True)
class Request:
    """A request for the verdict of one metric."""

    metric: str
    kind: type[Verdict]
    content: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)  # with which the verdict is validated

    @property
    def messages(self) -> tuple[Message, ...]:
        """The instructions, and what they are about as JSON, where no text can forge a message."""
        content = to_json(self.content).decode()
        return Message("system", _instructions(self.metric)), Message("user", content)


@cache
def _instructions(metric: str) -> str:
    return (PROMPTS / f"{metric}.txt").read_text("utf-8").strip()


def make_requests(question: Question, reply: Reply) -> tuple[Request, ...]:
    """Return the requests by the metrics that apply to an answer.

    None does where "I don't know" is right: the metric `abstention` counts that.
    """
    if not question.answerable and is_abstention(reply.content):
        return ()
    return tuple(_requests(question, reply))


def _requests(question: Question, reply: Reply) -> Iterator[Request]:
    common = {"conversation": question.history, "question": question.question}
    if parts := sentences(reply):
        content = {
            **common,
            "passages": [passage.model_dump() for passage in reply.passages],
            "sentences": [{"number": n, "sentence": part} for n, part in enumerate(parts, 1)],
        }
        names = frozenset(passage.name for passage in reply.passages)
        yield Request("groundedness", Grounding, content, {"count": len(parts), "names": names})
    common["answer"] = reply.content
    yield Request("relevance", Rating, common)
    if question.reference:
        yield Request("completeness", Rating, {**common, "reference": question.reference})
