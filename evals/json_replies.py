"""Replies of a language model in JSON: parsed strictly, and requested again if they are invalid.

After 429, 5xx and a lost connection the client itself repeats a request, if it was made for a batch
(`Clients(settings, batch=True)`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from shared.domain.errors import ChatError
from shared.domain.events import collect
from shared.domain.messages import Message
from shared.models.base import Model, ModelStream, Prompt
from shared.rag.model_stream import check_stream

ATTEMPTS = 3
FENCE = re.compile(r"\s*```(?:json)?(.*)```\s*", re.DOTALL)  # in which some models put JSON

R = TypeVar("R", bound=BaseModel)


class InvalidReply(Exception):
    """The model has accepted a request, and its reply is not valid; the message says why."""


async def request_reply(
    model: Model,
    messages: Sequence[Message],
    kind: type[R],
    context: Mapping[str, Any] | None = None,
    step: float = 0.0,
) -> R:
    """Return the parsed reply to messages; it is validated with the `context`.

    The temperature is 0, and `step` more for each other attempt. Raises InvalidReply after the last
    attempt, and the ChatErrors of a request that is not accepted.
    """
    for attempt in range(ATTEMPTS):
        try:
            async with model.open(Prompt("answer", tuple(messages), attempt * step)) as stream:
                content = await _read(stream)
            return parse(content, kind, context)
        except InvalidReply as error:
            problem = error
    raise InvalidReply(f"no valid reply in {ATTEMPTS} attempts, the last of them: {problem}")


async def _read(stream: ModelStream) -> str:
    try:
        answer = await collect(check_stream(stream))
    except ChatError as error:
        raise InvalidReply(describe(error)) from None
    if answer.done.finish_reason != "stop":
        raise InvalidReply(f"it ended with finish_reason {answer.done.finish_reason!r:.80}")
    return answer.content


def parse(content: str, kind: type[R], context: Mapping[str, Any] | None = None) -> R:
    """Parse a reply. Raises InvalidReply."""
    fence = FENCE.fullmatch(content)
    try:
        return kind.model_validate_json(fence[1] if fence else content, context=context)
    except ValidationError as error:
        raise InvalidReply(describe_invalid(error)) from None


def describe_invalid(error: ValidationError) -> str:
    """Return the place and the message of the first problem, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "the object"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


def describe(error: ChatError) -> str:
    """Return the cause of an error, which the app only logs, or else its message."""
    return error.cause or error.message
