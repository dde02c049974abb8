"""What answers are made with: the parts of the app, and those of one answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from shared.domain.events import Source
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest, User
from shared.models.base import Model
from shared.models.router import Router
from shared.models.selected_model import SelectedModel, fit_to_model
from shared.rag.prompt import PromptBuilder, Prompts, full_text
from shared.retrieval.base import Retriever, SearchResult, check_lengths
from shared.telemetry.access_log import NOOP_TRACER, Span, child_span

LARGE = 32_000  # characters, which take about as long as the start of a few threads

SearchStep = Callable[["AnswerInputs"], Awaitable[tuple[str, SearchResult]]]
"""Searches for the passages of an answer; returns the search query, too. Raises ChatErrors."""


@dataclass(frozen=True, slots=True)
class Rag:
    """What answers are made with: the adapters, the prompts, the defaults."""

    retriever: Retriever
    models: Router
    prompts: Prompts
    defaults: Overrides
    search_step: SearchStep = field(kw_only=True)
    client_prompts: bool = False  # whether a request may replace the instructions
    rewrite_seconds: float = 30  # that all of a rewrite may take
    mention_seconds: float = 5  # that finding and reading the documents of a question may take
    # Passages of a search with less relevance are not used: they are about something else.
    minimum_relevance: float | None = None
    thoughts: bool = True  # if not, no answer shows its steps, and nobody reads the instructions

    @property
    def model(self) -> Model:
        """The model of a request without options."""
        return self.models.default

    async def search(
        self, user: User, query: str, overrides: Overrides, parent: Span = NOOP_TRACER
    ) -> SearchResult:
        """Search for passages, in a child span of `parent`. Raises ChatErrors."""
        check_lengths(query, overrides)
        return await self.trace(self.retriever.search(user, query, overrides), parent)

    async def trace(self, search: Awaitable[SearchResult], parent: Span) -> SearchResult:
        """Return the result of a search, in a child span of `parent`. Raises what it raises."""
        with child_span(parent, "search", {"chat.index": self.retriever.name}) as span:
            results = await search
            tokens = {f"chat.search.{kind}_tokens": n for kind, n in results.tokens.items()}
            span.set_attributes({"chat.hits": len(results.sources), **tokens})
        return results


@dataclass(frozen=True, slots=True)
class FittedRequest:
    """A request with only what a model supports."""

    model: Model
    request: ChatRequest
    notes: tuple[str, ...]  # on what was left out


@dataclass(slots=True)
class AnswerInputs:
    """What one answer is made with."""

    rag: Rag
    request: ChatRequest
    selected: SelectedModel
    prompt_builder: PromptBuilder
    span: Span  # the parent of the spans of its search and its models
    fitted: FittedRequest | None = None

    def fit_request(self) -> FittedRequest:
        """Fit the request to the model, once for each model, with the defaults of the app."""
        model = self.selected.model
        if self.fitted is None or self.fitted.model is not model:
            request, notes = fit_to_model(self.request, model, self.rag.client_prompts)
            overrides = request.overrides.with_defaults(self.rag.defaults)
            self.fitted = FittedRequest(model, replace(request, overrides=overrides), notes)
        return self.fitted


def is_large(request: ChatRequest, sources: Sequence[Source] = ()) -> bool:
    """Whether counting the tokens of a prompt takes long.

    The definitions of tools and formats may be long: those are not measured.
    """
    generation = request.generation
    if generation.tools or "response_format" in generation.parameters:
        return True
    texts = chain(map(full_text, request.messages), (each.content for each in sources))
    return sum(map(len, texts)) > LARGE
