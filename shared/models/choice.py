"""The models of one request: which is asked, and which instead where that one does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from shared.chat import Delta, Done
from shared.errors import ChatError, ContentFiltered, DeadlineExceeded
from shared.models import Model, ModelStream, Prompt
from shared.models.wrapped import Wrapped

T = TypeVar("T")

log = logging.getLogger("chat")


@dataclass(slots=True)
class Choice:
    """The model to ask, and `instead`, what gives the one to ask where that fails: None without.

    `seconds` is how long the first may take to its first token where there is another. `failed`
    and `answered` are told how it fared. `notes` say in sentences what was used instead, and the
    log says it of the `request` of that id.
    """

    model: Model
    instead: Callable[[], Model] | None = None
    seconds: float = 20
    failed: Callable[[ChatError], None] = lambda _: None
    answered: Callable[[], None] = lambda: None
    request: str = ""
    notes: list[str] = field(default_factory=list)

    async def asked(self, attempt: Callable[[Model], Awaitable[T]]) -> T:
        """What comes of an attempt with the model; where it fails, of one with the other.

        A question that a content filter flags is not handed on. Raises ChatErrors.
        """
        if self.instead is None:
            return await attempt(self.model)
        try:
            got = await self._in_time(attempt)
        except ContentFiltered:
            raise
        except ChatError as failure:
            self._fall_back(failure, self.instead)
            return await attempt(self.model)
        self.answered()
        return got

    async def _in_time(self, attempt: Callable[[Model], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self.seconds) as limit:
                return await attempt(Eager(self.model))
        except TimeoutError:
            if not limit.expired():
                raise
            late = DeadlineExceeded(cause=f"{self.model.name}: no first token in time")
            late.of_model = True
            raise late from None

    def _fall_back(self, failure: ChatError, instead: Callable[[], Model]) -> None:
        self.failed(failure)
        why, before = type(failure).__name__, self.model.name
        said = failure.cause or failure.message
        log.warning("request id=%s model %s: %s: %s", self.request, before, why, said)
        self.model, self.instead = instead(), None
        name = self.model.name
        log.warning("request id=%s model %s was asked instead of %s", self.request, name, before)
        self.notes.append(f"{self.model.name} was asked instead of {before} ({why}).")


class Eager(Wrapped):
    """A model that counts as having accepted a prompt with its first token."""

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """As the model does; entered when the first event is there."""
        async with AsyncExitStack() as stack:
            stream = await stack.enter_async_context(self.model.open(prompt))
            first = await anext(stream, None)
            yield await stack.enter_async_context(aclosing(_resumed(first, stream)))


async def _resumed(first: Delta | Done | None, rest: ModelStream) -> ModelStream:
    async with aclosing(rest):
        if first is not None:
            yield first
        async for event in rest:
            yield event
