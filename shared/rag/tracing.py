"""Spans around the searches and the models of an answer."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from shared.domain.events import Done
from shared.models.base import ModelProxy, ModelStream, Prompt
from shared.models.fallback import SelectedModel
from shared.telemetry.access_log import NOOP_TRACER, Attributes, Span


@contextmanager
def child_span(parent: Span, name: str) -> Iterator[Span]:
    """Start a span around a block, and end it however the block ends."""
    span = parent.start_child(name)
    try:
        yield span
    except (CancelledError, GeneratorExit):  # client gone or deadline: the parent says which
        span.set_attributes({"chat.outcome": "broken off"})
        span.end()
        raise
    except BaseException as failure:
        span.end(type(failure).__name__)
        raise
    span.end()


def trace_models(selected: SelectedModel, parent: Span) -> SelectedModel:
    """Trace a model and its fallback in child spans of `parent`; unchanged without a tracer."""
    if parent is NOOP_TRACER:
        return selected
    fallback = selected.fallback
    if fallback is not None:
        fallback = replace(fallback, model=TracedModel(fallback.model, parent))
    return replace(selected, model=TracedModel(selected.model, parent), fallback=fallback)


@dataclass(frozen=True)
class TracedModel(ModelProxy):
    """A model whose rewrites and answers are spans, each with an event for its first token."""

    parent: Span

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Open the model, in a span that lasts until the stream is closed."""
        with child_span(self.parent, prompt.task) as span:
            span.set_attributes(
                {"gen_ai.operation.name": "chat", "gen_ai.request.model": self.name}
            )
            async with self.model.open(prompt) as stream:
                span.add_event("accepted")
                yield trace_stream(stream, span)


async def trace_stream(stream: ModelStream, span: Span) -> ModelStream:
    """Yield the same events; the span gets the first token and the usage."""
    waiting = True
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, Done):
                span.set_attributes(usage_attributes(event))
            elif waiting:
                waiting = False
                span.add_event("first token")
            yield event


def usage_attributes(done: Done) -> Attributes:
    """Return the attributes of the end of a stream, by OpenTelemetry's names."""
    attributes = {"gen_ai.response.finish_reason": done.finish_reason}
    if done.usage is None:
        return attributes
    return {
        **attributes,
        "gen_ai.usage.input_tokens": done.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": done.usage.completion_tokens,
    }
