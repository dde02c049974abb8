"""The models of one request: which is asked, and which instead where that one does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from shared.chat.errors import ChatError, ContentFiltered, DeadlineExceeded, Unavailable
from shared.chat.events import Delta, Done
from shared.models.base import Model, ModelStream, Prompt
from shared.models.model_proxy import ModelProxy

T = TypeVar("T")

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class FallbackOptions:
    """What a model is replaced by until its first token.

    `seconds` is how long the first may take to that. `failed` and `answered` are told how it fared.
    `names` are those of the two providers. The log says of the `request` of that id what was done.
    """

    model: Model
    seconds: float
    failed: Callable[[ChatError], None]
    answered: Callable[[], None]
    names: tuple[str, str]
    request: str = ""


@dataclass(slots=True)
class SelectedModel:
    """The model to ask, and what there is instead. `notes` say in sentences what was used."""

    model: Model
    fallback: FallbackOptions | None = None
    notes: list[str] = field(default_factory=list)

    async def run_with_fallback(self, attempt: Callable[[Model], Awaitable[T]]) -> T:
        """What comes of an attempt with the model; where it fails, of one with the other.

        A question that a content filter flags is not handed on. Raises ChatErrors.
        """
        other = self.fallback
        if other is None:
            return await attempt(self.model)
        try:
            return await attempt(FirstTokenModel(self.model, other))
        except ContentFiltered:
            raise
        except ChatError as failure:
            self.fall_back(failure)
            return await attempt(self.model)

    def fall_back(self, failure: ChatError) -> None:
        """Use the other model from now on, where there is one; `failure` is the first one's."""
        other = self.fallback
        if other is None:
            return
        other.failed(failure)
        why, said = type(failure).__name__, failure.cause or failure.message
        first, second = other.names
        log.warning(
            "request id=%s model of %s %s: %s; %s is asked", other.request, first, why, said, second
        )
        self.model, self.fallback = other.model, None
        self.notes.append(f"{second} was asked instead of {first} ({why}).")


@dataclass(frozen=True)
class FirstTokenModel(ModelProxy):
    """A model that counts as having accepted a prompt with its first token."""

    other: FallbackOptions

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """As the model does; entered when the first event is there, in the time that it has."""
        async with AsyncExitStack() as stack:
            first, stream = await self._begun(prompt, stack)
            self.other.answered()
            yield await stack.enter_async_context(aclosing(_resumed(first, stream)))

    async def _begun(
        self, prompt: Prompt, stack: AsyncExitStack
    ) -> tuple[Delta | Done, ModelStream]:
        try:
            # One whose answer comes in one piece has the time for all of it.
            seconds = None if "streaming" in self.limits else self.other.seconds
            async with asyncio.timeout(seconds) as limit:
                stream = await stack.enter_async_context(self.model.open(prompt))
                first = await anext(stream, None)
        except TimeoutError:
            if not limit.expired():  # somebody else's
                raise
            raise DeadlineExceeded(cause="no first token in time") from None
        if first is None:
            raise Unavailable("The model's answer broke off. Ask again.")
        return first, stream


async def _resumed(first: Delta | Done, rest: ModelStream) -> ModelStream:
    async with aclosing(rest):
        yield first
        async for event in rest:
            yield event
