"""Replies of a language model in JSON: parsed strictly, and requested again a few times."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import to_json

from shared.chat.errors import (
    BadRequest,
    ChatError,
    DeadlineExceeded,
    TooManyRequests,
    Unavailable,
    describe_errors,
)
from shared.chat.events import collect
from shared.chat.messages import Message
from shared.models.base import Model, Prompt
from shared.rag.flow import check_stream

PROMPTS = Path(__file__).parent.parent / "prompts"
ATTEMPTS = 3
MAX_WAIT = 60.0  # seconds, also where a service requests more
FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)  # around the JSON of some models

T = TypeVar("T")
R = TypeVar("R", bound=BaseModel)
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
Fact = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class InvalidReply(Exception):
    """The model's reply is not what its instructions demand; the message says why."""


class DraftError(Exception):
    """There is no draft for a passage, after all attempts; the message says why."""


class DraftReply(BaseModel):
    """A question with its answer and facts, or none."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    question: Line | None
    answer: Line | None = None
    facts: list[Fact] = Field(default=[], max_length=5)


class CheckReply(BaseModel):
    """The answer to a question from its passage alone, or none."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    answer: Line | None


@dataclass(frozen=True, slots=True)
class JsonModel:
    """A language model that replies in JSON, to the instructions of a file in `prompts/`."""

    model: Model

    async def reply(
        self, prompt: str, data: Mapping[str, str], kind: type[R], attempt: int = 0
    ) -> R:
        """Return the parsed reply. The data are sent as JSON, so that no text can end early.

        A later attempt is less deterministic. Raises InvalidReply, ChatErrors.
        """
        instructions = (PROMPTS / f"{prompt}.txt").read_text("utf-8").strip()
        messages = Message("system", instructions), Message("user", to_json(data).decode())
        async with self.model.open(Prompt("answer", messages, attempt * 0.4)) as stream:
            answer = await collect(check_stream(stream))
        return parse(answer.content, kind)


def parse(text: str, kind: type[R]) -> R:
    """Parse a reply. Raises InvalidReply."""
    text = text.strip()
    fence = FENCE.fullmatch(text)
    try:
        return kind.model_validate_json(fence[1] if fence else text)
    except ValidationError as error:
        message = describe_errors(error, lambda path: path or "the reply")
        raise InvalidReply(f"the model's reply is not valid: {message}") from None


async def retry(work: Callable[[int], Awaitable[T]]) -> T:
    """Call `work` with the number of the attempt until it succeeds.

    Raises DraftError after the last attempt or where another one is of no use, and the ChatErrors
    that every other passage would meet.
    """
    for attempt in range(ATTEMPTS):
        try:
            return await work(attempt)
        except (InvalidReply, TooManyRequests, Unavailable, DeadlineExceeded) as error:
            last: Exception = error
        except BadRequest as error:
            raise DraftError(describe(error)) from None
        if attempt + 1 < ATTEMPTS and isinstance(last, ChatError):
            wait = getattr(last, "retry_after", None)
            await asyncio.sleep(min(2.0**attempt if wait is None else wait, MAX_WAIT))
    raise DraftError(describe(last))


def describe(error: Exception) -> str:
    """Return the cause of an error, which the app only logs, or else its message."""
    return getattr(error, "cause", None) or str(error)
