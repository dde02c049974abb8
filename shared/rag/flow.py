"""The one path every request takes: rewrite, retrieve, prompt, stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from shared.domain.concurrency import run_in_thread_if, with_deadline
from shared.domain.errors import ChatError, DeadlineExceeded
from shared.domain.events import Context, Events, ExcludedSource, Source, Step, collect
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest, User
from shared.memory.chat_history import AnswerStore
from shared.models.base import Model
from shared.models.router import ModelSelection, Router
from shared.models.selected_model import SelectedModel, drop_images, fit_to_model, image_notes
from shared.rag import prompt as prompts
from shared.rag.followups import extract_followups
from shared.rag.model_stream import open_stream
from shared.rag.prompt import COMPOSED, PromptBuilder
from shared.retrieval.base import Retriever, SearchResult, check_lengths, shorten_query
from shared.telemetry.access_log import NOOP_TRACER, AccessLog, Span, child_span

LARGE = 32_000  # characters, which take about as long as the start of a few threads
MAX_QUERY_LENGTH = 1000  # characters; a longer rewrite of a question is of no use
NO_RESULTS = SearchResult((), {})
NOT_REWRITTEN = (
    "The question was searched for as it was asked: the model could not rewrite it ({why})."
)
IRRELEVANT = (
    "No passage was used: the relevance of the best, {:.2f}, is below the minimum of {:.2f}."
)

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class Rag:
    """What answers are made with: the adapters, the prompts, the defaults."""

    retriever: Retriever
    models: Router
    prompts: prompts.Prompts
    defaults: Overrides
    client_prompts: bool = False  # whether a request may replace the instructions
    rewrite_seconds: float = 30  # that all of a rewrite may take
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
        with child_span(parent, "search", {"chat.index": self.retriever.name}) as span:
            results = await self.retriever.search(user, query, overrides)
            span.set_attributes({"chat.hits": len(results.sources)})
        return results


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How the answer to one request is streamed. Deadlines are times of the event loop's clock."""

    request: ChatRequest
    record: AccessLog  # of the request, with its span
    deadline: float
    model_deadline: float  # before `deadline` if the answer is stored in `history`
    history: AnswerStore | None = None
    # Those of the request's protocol: each takes the events of an answer and returns events.
    transforms: Sequence[Callable[[Events], Events]] = ()
    prompt_builder: PromptBuilder = COMPOSED


def stream_answer(rag: Rag, options: StreamOptions) -> Events:
    """Answer a request as a stream of events, through its transforms in their order."""
    request, history = options.request, options.history
    events = answer(rag, request, options.prompt_builder, options.record.span)
    # First, so that the others send what they hold back when the model's time is over.
    events = with_deadline(options.model_deadline, events)
    # Before storing, so that the stored text has no marked questions.
    if request.overrides.suggest_followup_questions:
        events = extract_followups(events)
    # Before those of the protocol: the stored text is the same for all protocols.
    if history:
        events = history.store_answer(request, events)
    # Such as OpenAI's citations by number.
    for transform in options.transforms:
        events = transform(events)
    # Around what can take time beside the model.
    if history:
        events = with_deadline(options.deadline, events)
    # Last: the log records what is sent, when it is sent.
    return options.record.observe(events)


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


async def answer(
    rag: Rag,
    request: ChatRequest,
    prompt_builder: PromptBuilder = COMPOSED,
    span: Span = NOOP_TRACER,
) -> Events:
    """Answer a request as a stream: one Context, any Deltas, one Done.

    Everything that can be refused is refused before the Context. A failure is an exception, one
    of the ChatErrors where the caller can know why.
    """
    overrides, metadata = request.overrides, request.metadata
    selected = rag.models.select(
        ModelSelection(overrides.hybrid_policy, overrides.model, request.remote, metadata.id)
    )
    inputs = AnswerInputs(rag, request, selected, prompt_builder, span)
    if request.grounding == "none":
        query, results = request.question, NO_RESULTS
    else:
        query, overrides = await resolve_query(inputs)
        query = shorten_query(query)
        results = await rag.search(metadata.user, query, overrides, span)
        results = drop_irrelevant(results, rag.minimum_relevance)
        results = replace(results, notes=(*image_notes(request, selected.model), *results.notes))
    async with AsyncExitStack() as stack:
        start = partial(start_answer, inputs, query, results, stack)
        context, events = await selected.run_with_fallback(start)
        yield context
        async for event in events:
            yield event


def drop_irrelevant(results: SearchResult, minimum: float | None) -> SearchResult:
    """Exclude all passages if their relevance is below a minimum. They stay if it is unknown."""
    relevance = results.relevance
    if minimum is None or relevance is None or relevance >= minimum or not results.sources:
        return results
    excluded = (ExcludedSource(source, "score") for source in results.sources)
    return replace(
        results,
        sources=(),
        excluded=(*excluded, *results.excluded),
        notes=(*results.notes, IRRELEVANT.format(relevance, minimum)),
    )


async def start_answer(
    inputs: AnswerInputs, query: str, results: SearchResult, stack: AsyncExitStack
) -> tuple[Context, Events]:
    """Call a model for the answer. Raises ChatErrors, the model's refusals among them."""
    model, texts = inputs.selected.model, inputs.rag.prompts
    request = inputs.fit_request().request
    if "images" in model.limits:
        results = replace(results, sources=drop_images(results.sources))
    build = partial(inputs.prompt_builder.build, request, texts, model, results.sources)
    built = await run_in_thread_if(is_large(request, results.sources), build)
    stream = open_stream(inputs.selected, built.prompt, inputs.span)
    events = await stack.enter_async_context(stream)
    return make_context(inputs, query, results, built), events


def make_context(
    inputs: AnswerInputs, query: str, results: SearchResult, built: prompts.BuiltPrompt
) -> Context:
    """Make the context of an answer that a model has begun."""
    fitted, thoughts = inputs.fit_request(), inputs.rag.thoughts
    model, overrides = fitted.model, fitted.request.overrides
    all_notes = (
        *inputs.request.notes,
        *inputs.selected.notes,
        *fitted.notes,
        *results.notes,
        *omission_notes(results, built),
    )
    notes = tuple(dict.fromkeys(all_notes))
    # The four steps of every answer, in the order and with the titles of the documents.
    user = fitted.request.metadata.user
    steps: tuple[Step, ...] = (
        Step("Original user query", fitted.request.question),
        Step("Generated search query", query, results.props),
        Step("Results", tuple(redact_acl(source, user) for source in results.sources)),
        Step("Prompt", built.prompt.messages, {"model": model.name}),
    )
    if notes:
        steps = (*steps, Step("What was used instead", notes))
    return Context(
        sources=results.sources[: built.fitted],
        steps=steps,
        model=model.name,
        captions=bool(overrides.semantic_captions),
        images=built.images,
        instructions=built.prompt.messages[0].content if thoughts else "",
        single_chunk="streaming" in model.limits,
        notes=notes,
        # First those without room in the prompt.
        excluded=(
            *(ExcludedSource(source, "rerank") for source in results.sources[built.fitted :]),
            *results.excluded,
        ),
        shows_steps=thoughts and overrides.thoughts is not False,
    )


async def resolve_query(inputs: AnswerInputs) -> tuple[str, Overrides]:
    """Rewrite the question, or return it unchanged if no model rewrites it in time.

    A note says so, and the log has the cause. Raises what fails before a model is called.
    """
    request, selected = inputs.request, inputs.selected
    # Nothing is rewritten without turns before the question.
    seconds = inputs.rag.rewrite_seconds if request.history else None
    try:
        async with asyncio.timeout(seconds) as limit:
            return await selected.run_with_fallback(partial(rewrite_question, inputs))
    except TimeoutError:
        if not limit.expired():  # not this time limit
            raise
        failure: ChatError = DeadlineExceeded(cause="no search query in time")
        selected.fall_back(failure)  # or the answer would wait for the same model again
    except ChatError as error:
        if not error.from_model:
            raise
        failure = error
    why, cause = type(failure).__name__, failure.cause or failure.message
    log.warning("request id=%s rewrite %s: %s", request.metadata.id, why, cause)
    selected.notes.append(NOT_REWRITTEN.format(why=why))
    fitted = inputs.fit_request().request
    return fitted.question, fitted.overrides


async def rewrite_question(inputs: AnswerInputs) -> tuple[str, Overrides]:
    """Return a search query that makes sense without the history, and the overrides of the search.

    Raises TooLong if the model could not answer the question in any case, before it is called.
    """
    model, texts = inputs.selected.model, inputs.rag.prompts
    fitted = inputs.fit_request().request
    large = is_large(fitted)
    await run_in_thread_if(large, partial(inputs.prompt_builder.room, fitted, texts, model))
    if not fitted.history:
        return fitted.question, fitted.overrides
    build = partial(prompts.build_rewrite_prompt, fitted, texts, model)
    prompt = await run_in_thread_if(large, build)
    async with open_stream(inputs.selected, prompt, inputs.span) as events:
        rewrite = await collect(events)
    query = " ".join(rewrite.content.split()).strip('"')
    # "0" is how the prompt lets the model say that it cannot write one.
    usable = query not in ("", "0") and len(query) <= MAX_QUERY_LENGTH
    complete = rewrite.done.finish_reason == "stop"
    return query if usable and complete else fitted.question, fitted.overrides


def is_large(request: ChatRequest, sources: Sequence[Source] = ()) -> bool:
    """Whether counting the tokens of a prompt takes long.

    The definitions of tools and formats may be long: those are not measured.
    """
    generation = request.generation
    if generation.tools or "response_format" in generation.parameters:
        return True
    texts = chain(map(prompts.full_text, request.messages), (each.content for each in sources))
    return sum(map(len, texts)) > LARGE


def redact_acl(source: Source, user: User) -> Source:
    """Return a source without the ids of other users and groups: they are not the caller's to
    read."""
    oids = tuple(oid for oid in source.oids if oid == user.oid)
    groups = tuple(group for group in source.groups if group in user.groups)
    return replace(source, oids=oids, groups=groups)


def omission_notes(results: SearchResult, built: prompts.BuiltPrompt) -> Iterator[str]:
    """Yield notes about results that are not in the prompt."""
    if number := len(results.sources) - built.fitted:
        yield f"{number} of the passages found did not fit the model and were left out."
    images = sum(source.image is not None for source in results.sources[: built.fitted])
    if number := images - len(built.images):
        yield f"{number} of the images found did not fit the model and were left out."
