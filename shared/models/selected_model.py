"""The model of one request: its fallback until the first token, and what a request loses for it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from shared.domain.concurrency import time_limit
from shared.domain.errors import ChatError, ContentFiltered, DeadlineExceeded, Unavailable
from shared.domain.events import Delta, Done, Source
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.models.base import Model, ModelStream, Prompt

T = TypeVar("T")

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class FallbackOptions:
    """The fallback model, and when it replaces the first one."""

    model: Model
    seconds: float  # that the first model has to its first token
    on_failure: Callable[[ChatError], None]  # gets the failure of the first model
    on_answer: Callable[[], None]  # is called with the first token of the first model
    provider_names: tuple[str, str]  # of both models, for the log line and the note
    request_id: str = ""


@dataclass(slots=True)
class SelectedModel:
    """The model of a request and its fallback."""

    model: Model
    fallback: FallbackOptions | None = None
    notes: list[str] = field(default_factory=list)  # sentences on which model was used

    async def run_with_fallback(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt`, which uses the model, and again with the fallback if it fails.

        A question that a content filter flags is not sent to the fallback. Raises ChatErrors.
        """
        try:
            return await attempt()
        except ChatError as failure:
            if self.fallback is None or isinstance(failure, ContentFiltered):
                raise
            self.fall_back(failure)
            return await attempt()

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

    async def open(
        self, prompt: Prompt, stack: AsyncExitStack, on_accepted: Callable[[], None]
    ) -> ModelStream:
        """Open the model until `stack` is closed. Raises ChatErrors.

        With a fallback, this includes the first event: a failure until then is raised here.
        `on_accepted` is called as soon as the model has accepted the prompt.
        """
        options = self.fallback
        if options is None:
            stream = await stack.enter_async_context(self.model.open(prompt))
            on_accepted()
            return stream
        # A model without streaming has no limit here: its first event is the whole answer.
        seconds = None if "streaming" in self.model.limits else options.seconds
        async with time_limit(seconds, DeadlineExceeded(cause="no first token in time")):
            stream = await stack.enter_async_context(self.model.open(prompt))
            on_accepted()
            first = await anext(stream, None)
        if first is None:
            raise Unavailable("The model's answer broke off. Ask again.")
        options.on_answer()
        return await stack.enter_async_context(aclosing(_prepend(first, stream)))


async def _prepend(first: Delta | Done, rest: ModelStream) -> ModelStream:
    async with aclosing(rest):
        yield first
        async for event in rest:
            yield event


def fit_to_model(
    request: ChatRequest, model: Model, client_prompts: bool
) -> tuple[ChatRequest, tuple[str, ...]]:
    """Return the request without unsupported options, and a note for each of them."""
    notes = [model.limits[name] for name in requested_capabilities(request) if name in model.limits]
    if request.overrides.is_requested("prompt_template") and not client_prompts:
        overrides = request.overrides.model_copy(update={"prompt_template": None})
        request = replace(request, overrides=overrides)
        notes.append(
            "prompt_template was left out: this deployment does not allow client prompts "
            "(ALLOW_CLIENT_PROMPTS)."
        )
    notes += image_notes(request, model)
    if "images" in model.limits:
        request = without_images(request)
    if "tools" in model.limits:  # they would take room in the prompt
        request = replace(request, generation=replace(request.generation, tools=()))
    return request, tuple(notes)


def drop_images(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return the passages without their images."""
    return tuple(replace(source, image=None) for source in sources)


def without_images(request: ChatRequest) -> ChatRequest:
    """Return the request without images, and without the option to add those of passages."""
    messages = tuple(
        drop_message_images(message) if message.images else message for message in request.messages
    )
    overrides = request.overrides.model_copy(update={"use_gpt4v": None})
    return replace(request, messages=messages, overrides=overrides)


def image_notes(request: ChatRequest, model: Model) -> list[str]:
    """Return a note if the request asks for images of passages that the model does not support."""
    if not request.overrides.includes_images or "images" not in model.limits:
        return []
    return [f"use_gpt4v was left out: {model.name} is not known to see images; text was used."]


def drop_message_images(message: Message) -> Message:
    """Return a message without its images."""
    raw = message.raw
    if raw is not None:
        raw = {key: value for key, value in raw.items() if key != "images"}
        raw = {**raw, "content": message.content}
    return replace(message, images=(), raw=raw)


def requested_capabilities(request: ChatRequest) -> list[str]:
    """Return the capabilities that a request needs, by the names of `Model.limits`."""
    names = [name for name in ("temperature", "seed") if request.overrides.is_requested(name)]
    others = ("images", "tools", "streaming")  # no parameters
    names += [name for name in request.generation.parameters if name not in others]
    has_images = any(message.images for message in request.messages)
    present = {"images": has_images, "tools": bool(request.generation.tools)}
    return [*(name for name, value in present.items() if value), *names]
