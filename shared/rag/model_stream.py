"""Opens the stream of a model, in a span, and checks what comes out of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial

from shared.domain.errors import ChatError, ContentFiltered, Unavailable
from shared.domain.events import Done, Events
from shared.models.base import AnswerLength, ModelStream, Prompt
from shared.models.selected_model import SelectedModel
from shared.telemetry.access_log import NOOP_TRACER, Attributes, Span, child_span


@asynccontextmanager
async def open_stream(
    selected: SelectedModel, prompt: Prompt, parent: Span
) -> AsyncIterator[Events]:
    """Open the stream of a model, in a child span of `parent`. Entered when the model accepts."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": selected.model.name}
    with child_span(parent, prompt.task, attributes) as span:
        async with AsyncExitStack() as stack:
            try:
                stream = await selected.open(prompt, stack, partial(span.add_event, "accepted"))
            except ChatError as failure:
                failure.from_model = True
                raise
            yield await stack.enter_async_context(aclosing(check_stream(stream, span)))


async def check_stream(stream: ModelStream, span: Span = NOOP_TRACER) -> Events:
    """Yield a model's events up to its Done; `span` gets its first token and its usage.

    Raises ContentFiltered if the model's filter stopped it, Unavailable if it broke off or is too
    long.
    """
    length, waiting = AnswerLength(), True
    try:
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, Done):
                    span.set_attributes(done_attributes(event))
                    if event.finish_reason == "content_filter":
                        raise ContentFiltered
                    yield event
                    return
                if waiting:
                    waiting = False
                    span.add_event("first token")
                length.add(event)
                yield event
        raise Unavailable("The model's answer broke off. Ask again.")
    except ChatError as failure:
        failure.from_model = True
        raise


def done_attributes(done: Done) -> Attributes:
    """Return the attributes of the end of a stream, by OpenTelemetry's names."""
    attributes: Attributes = {"gen_ai.response.finish_reason": done.finish_reason}
    if done.usage is None:
        return attributes
    return {
        **attributes,
        "gen_ai.usage.input_tokens": done.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": done.usage.completion_tokens,
    }
