"""Spans around the retriever and the models of an answer."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from shared.chat.events import Done
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.models.base import Model, ModelProxy, ModelStream, Prompt
from shared.models.fallback import SelectedModel
from shared.models.router import ModelSelection, Router
from shared.rag.flow import Rag
from shared.retrieval.base import Retriever, SearchResult
from shared.telemetry.spans import NOOP_TRACER, Attributes, Span


def with_tracing(rag: Rag, parent: Span) -> Rag:
    """The engine with its work in child spans of `parent`; unchanged without a tracer."""
    if parent is NOOP_TRACER:
        return rag
    retriever, models = TracedRetriever(rag.retriever, parent), TracedRouter(rag.models, parent)
    return replace(rag, retriever=retriever, models=models)


@contextmanager
def child_span(parent: Span, name: str) -> Iterator[Span]:
    """A span around a block, ended however the block ends."""
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


class TracedRetriever:
    """A retriever whose searches are spans."""

    def __init__(self, retriever: Retriever, parent: Span) -> None:
        self.retriever, self.parent, self.name = retriever, parent, retriever.name

    async def ready(self) -> None:
        """Delegates."""
        await self.retriever.ready()

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """Delegates, in a span."""
        with child_span(self.parent, "search") as span:
            span.set_attributes({"chat.index": self.name})
            results = await self.retriever.search(user, query, overrides)
            span.set_attributes({"chat.hits": len(results.sources)})
        return results

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """Delegates."""
        return await self.retriever.readable(user, sourcefile, overrides)


class TracedRouter(Router):
    """A router whose models are traced."""

    def __init__(self, router: Router, parent: Span) -> None:
        """Which providers are down is left to `router`."""
        self.providers, self.policy = router.providers, router.policy
        self.router, self.parent = router, parent

    @property
    def default(self) -> Model:
        """Delegates, traced."""
        return TracedModel(self.router.default, self.parent)

    def select(self, selection: ModelSelection) -> SelectedModel:
        """Delegates, traced."""
        selected = self.router.select(selection)
        fallback = selected.fallback
        if fallback is not None:
            fallback = replace(fallback, model=TracedModel(fallback.model, self.parent))
        return replace(selected, model=TracedModel(selected.model, self.parent), fallback=fallback)


@dataclass(frozen=True)
class TracedModel(ModelProxy):
    """A model whose rewrites and answers are spans, each with an event for its first token."""

    parent: Span

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """Delegates, in a span that lasts until the stream is closed."""
        with child_span(self.parent, prompt.task) as span:
            span.set_attributes(
                {"gen_ai.operation.name": "chat", "gen_ai.request.model": self.name}
            )
            async with self.model.open(prompt) as stream:
                span.add_event("accepted")
                yield trace_stream(stream, span)


async def trace_stream(stream: ModelStream, span: Span) -> ModelStream:
    """The same stream; the span gets its first token and its usage."""
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
    """Attributes of the end of a stream, by OpenTelemetry's names."""
    facts = {"gen_ai.response.finish_reason": done.finish_reason}
    if done.usage is None:
        return facts
    return {
        **facts,
        "gen_ai.usage.input_tokens": done.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": done.usage.completion_tokens,
    }
