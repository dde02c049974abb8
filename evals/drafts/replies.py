"""The replies that a language model gives to the instructions in `prompts/`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)
from pydantic_core import to_json

from evals.metrics import contains
from shared.domain.messages import Message

PROMPTS = Path(__file__).with_name("prompts")

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
Fact = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class DraftReply(_Reply):
    """A question with its answer and facts, or none. Validated with its `passage` as context."""

    question: Line | None
    answer: Line | None = None
    facts: list[Fact] = Field(default=[], max_length=5)

    @model_validator(mode="after")
    def _check_facts(self, info: ValidationInfo) -> Self:
        if self.question is None:
            return self
        if not self.facts or not self.answer:
            raise ValueError("it has no answer or no facts")
        passage = (info.context or {})["passage"]
        if not contains_all(self.answer, self.facts) or not contains_all(passage, self.facts):
            raise ValueError("the facts are not in the answer, or not in the passage")
        return self


class CheckReply(_Reply):
    """The answer to a question from its passage alone, or none."""

    answer: Line | None


def make_messages(prompt: str, **data: str) -> tuple[Message, ...]:
    """Return the instructions of a file, and the data as JSON, in which no text can end early."""
    return Message("system", _instructions(prompt)), Message("user", to_json(data).decode())


@cache
def _instructions(prompt: str) -> str:
    return (PROMPTS / f"{prompt}.txt").read_text("utf-8").strip()


def contains_all(text: str, facts: Iterable[str]) -> bool:
    """Whether a text has all facts, as the scores of answers see it."""
    return all(contains(text, fact) for fact in facts)
