"""Where does the time of an answer go? The retriever and the model, each in spans of its own."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from shared.chat.events import Done
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.models.base import Model, ModelStream, Prompt
from shared.models.fallback import SelectedModel
from shared.models.model_proxy import ModelProxy
from shared.models.router import ModelSelection, Router
from shared.rag.flow import Rag
from shared.retrieval.base import Retriever, SearchResult
from shared.telemetry.spans import NOOP_TRACER, Attributes, Span


def with_tracing(rag: Rag, parent: Span) -> Rag:
    """The same parts, which tell of their work in children of `parent`; as they are in silence."""
    if parent is NOOP_TRACER:
        return rag
    retriever, models = TracedRetriever(rag.retriever, parent), TracedRouter(rag.models, parent)
    return replace(rag, retriever=retriever, models=models)


@contextmanager
def part(parent: Span, name: str) -> Iterator[Span]:
    """A span around a block, ended however the block ends."""
    span = parent.start_child(name)
    try:
        yield span
    except (CancelledError, GeneratorExit):  # the client left, or the time was up: the parent knows
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
        """As the retriever does."""
        await self.retriever.ready()

    async def search(self, user: User, query: str, overrides: Overrides) -> SearchResult:
        """As the retriever does, in a span."""
        with part(self.parent, "search") as span:
            span.set_attributes({"chat.index": self.name})
            found = await self.retriever.search(user, query, overrides)
            span.set_attributes({"chat.hits": len(found.sources)})
        return found

    async def readable(self, user: User, sourcefile: str, overrides: Overrides) -> bool:
        """As the retriever does."""
        return await self.retriever.readable(user, sourcefile, overrides)


class TracedRouter(Router):
    """The same choice among the same models, each in spans."""

    def __init__(self, router: Router, parent: Span) -> None:
        """What is known to be down is the other's knowledge."""
        self.providers, self.policy = router.providers, router.policy
        self.router, self.parent = router, parent

    @property
    def default(self) -> Model:
        """As the router does."""
        return TracedModel(self.router.default, self.parent)

    def select(self, selection: ModelSelection) -> SelectedModel:
        """As the router does."""
        made = self.router.select(selection)
        other = made.fallback
        if other is not None:
            other = replace(other, model=TracedModel(other.model, self.parent))
        return replace(made, model=TracedModel(made.model, self.parent), fallback=other)


@dataclass(frozen=True)
class TracedModel(ModelProxy):
    """A model whose rewrites and answers are spans, each with an event for its first token."""

    parent: Span

    @asynccontextmanager
    async def open(self, prompt: Prompt) -> AsyncIterator[ModelStream]:
        """As the model does, in a span that lasts until the stream is closed."""
        with part(self.parent, prompt.task) as span:
            span.set_attributes(
                {"gen_ai.operation.name": "chat", "gen_ai.request.model": self.name}
            )
            async with self.model.open(prompt) as stream:
                span.add_event("accepted")
                yield heard(stream, span)


async def heard(stream: ModelStream, span: Span) -> ModelStream:
    """The same stream; its first token and its end are told."""
    silent = True
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, Done):
                span.set_attributes(last_words(event))
            elif silent:
                silent = False
                span.add_event("first token")
            yield event


def last_words(done: Done) -> Attributes:
    """What the end of a stream tells, in OpenTelemetry's names for it."""
    facts = {"gen_ai.response.finish_reason": done.finish_reason}
    if done.usage is None:
        return facts
    return {
        **facts,
        "gen_ai.usage.input_tokens": done.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": done.usage.completion_tokens,
    }
