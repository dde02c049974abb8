"""The model of one request, and its fallback until the first token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from shared.domain.errors import ChatError, ContentFiltered, DeadlineExceeded, Unavailable
from shared.domain.events import Delta, Done
from shared.models.base import Model, ModelProxy, ModelStream, Prompt

T = TypeVar("T")

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class FallbackOptions:
    """The fallback model, and when it replaces the first one.

    The first model has `seconds` to its first token. `on_failure` and `on_answer` are called with
    its result. `provider_names` are those of both models, for the log line and the note.
    """

    model: Model
    seconds: float
    on_failure: Callable[[ChatError], None]
    on_answer: Callable[[], None]
    provider_names: tuple[str, str]
    request_id: str = ""


@dataclass(slots=True)
class SelectedModel:
    """The model of a request and its fallback. `notes` are sentences on which model was used."""

    model: Model
    fallback: FallbackOptions | None = None
    notes: list[str] = field(default_factory=list)

    async def run_with_fallback(self, attempt: Callable[[Model], Awaitable[T]]) -> T:
        """Call `attempt` with the model and, if it fails, with the fallback.

        A question that a content filter flags is not sent to the fallback. Raises ChatErrors.
        """
        options = self.fallback
        if options is None:
            return await attempt(self.model)
        try:
            return await attempt(FirstTokenModel(self.model, options))
        except ContentFiltered:
            raise
        except ChatError as failure:
            self.fall_back(failure)
            return await attempt(self.model)

    def fall_back(self, failure: ChatError) -> None:
        """Replace the model by its fallback, if it has one, because of `failure`."""
        options = self.fallback
        if options is None:
            return
        options.on_failure(failure)
        name, cause = type(failure).__name__, failure.cause or failure.message
        first, second = options.provider_names
        log.warning(
            "request id=%s model of %s %s: %s; %s is asked",
            options.request_id,
            first,
            name,
            cause,
            second,
        )
        self.model, self.fallback = options.model, None
        self.notes.append(f"{second} was asked instead of {first} ({name}).")


@dataclass(frozen=True)
class FirstTokenModel(ModelProxy):
    """A model whose `open` is entered with its first event, so that a late failure is one of it."""

    options: FallbackOptions

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Open the model; entered with its first event. Raises DeadlineExceeded, ChatErrors."""
        async with AsyncExitStack() as stack:
            first, stream = await self._open_to_first_event(prompt, stack)
            self.options.on_answer()
            yield await stack.enter_async_context(aclosing(_prepend(first, stream)))

    async def _open_to_first_event(
        self, prompt: Prompt, stack: AsyncExitStack
    ) -> tuple[Delta | Done, ModelStream]:
        try:
            # A model without streaming has no limit here: its first event is the whole answer.
            seconds = None if "streaming" in self.limits else self.options.seconds
            async with asyncio.timeout(seconds) as limit:
                stream = await stack.enter_async_context(self.model.open(prompt))
                first = await anext(stream, None)
        except TimeoutError:
            if not limit.expired():  # the timeout of a caller
                raise
            raise DeadlineExceeded(cause="no first token in time") from None
        if first is None:
            raise Unavailable("The model's answer broke off. Ask again.")
        return first, stream


async def _prepend(first: Delta | Done, rest: ModelStream) -> ModelStream:
    async with aclosing(rest):
        yield first
        async for event in rest:
            yield event
