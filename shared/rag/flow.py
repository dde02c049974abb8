"""The one path every request takes: rewrite, retrieve, prompt, stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import partial

from shared.chat.errors import ChatError, ContentFiltered, DeadlineExceeded, Unavailable
from shared.chat.events import Context, Done, Events, ExcludedSource, Source, Step, collect
from shared.chat.overrides import Overrides
from shared.chat.request import ChatRequest, User
from shared.models.base import Model, ModelStream, Prompt
from shared.models.capabilities import drop_images, fit_to_model, image_notes
from shared.models.fallback import SelectedModel
from shared.models.router import ModelSelection, Router
from shared.rag import prompt as prompts
from shared.rag.prompt import COMPOSED, PromptBuilder
from shared.retrieval.base import Retriever, SearchResult, shorten_query

MAX_QUERY_LENGTH = 1000  # characters; a longer rewrite of a question is of no use
NO_RESULTS = SearchResult((), {})
NOT_REWRITTEN = (
    "The question was searched for as it was asked: the model could not rewrite it ({why})."
)

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class Rag:
    """What answers are made with: the adapters, the prompts, the defaults.

    `rewrite_seconds` is how long all of a rewrite may take.
    """

    retriever: Retriever
    models: Router
    prompts: prompts.Prompts
    defaults: Overrides
    client_prompts: bool = False
    rewrite_seconds: float = 30
    prompt_builder: PromptBuilder = COMPOSED

    @property
    def model(self) -> Model:
        """The model that answers where a request says nothing."""
        return self.models.default


async def answer(rag: Rag, request: ChatRequest) -> Events:
    """Answer a request as a stream: one Context, any Deltas, one Done.

    Everything that can be refused is refused before the Context. A failure is an exception, one
    of the ChatErrors where the caller can know why.
    """
    selected = rag.models.select(model_selection(request))
    query, results = request.question, NO_RESULTS
    if request.grounding != "none":
        query, overrides = await resolve_query(rag, request, selected)
        query = shorten_query(query)
        results = await rag.retriever.search(request.metadata.user, query, overrides)
        results = replace(results, notes=(*image_notes(request, selected.model), *results.notes))
    async with AsyncExitStack() as stack:
        started = await selected.run_with_fallback(
            partial(start_answer, rag, request, results, stack)
        )
        yield make_context(request, query, started, selected.notes)
        async for event in started.events:
            yield event


def model_selection(request: ChatRequest) -> ModelSelection:
    """The model that a request asks for."""
    overrides = request.overrides
    return ModelSelection(
        overrides.hybrid_policy, overrides.model, request.remote, request.metadata.id
    )


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """An answer that a model has begun to give: its prompt, the search results, its events."""

    model: Model
    results: SearchResult
    built: prompts.BuiltPrompt
    events: Events
    captions: bool
    notes: tuple[str, ...]


async def start_answer(
    rag: Rag, request: ChatRequest, results: SearchResult, stack: AsyncExitStack, model: Model
) -> StartedAnswer:
    """Call a model for the answer. Raises ChatErrors, the model's refusals among them."""
    fitted, notes = fit_to_model(request, model, rag.client_prompts)
    overrides = fitted.overrides.with_defaults(rag.defaults)
    if "images" in model.limits:
        results = replace(results, sources=drop_images(results.sources))
    build = rag.prompt_builder.build
    # In a thread: counting megabytes would hold up every other answer of this worker.
    built = await asyncio.to_thread(build, fitted, overrides, rag.prompts, model, results.sources)
    events = await open_stream(model, built.prompt, stack)
    captions = bool(overrides.semantic_captions)
    return StartedAnswer(model, results, built, events, captions, notes)


async def open_stream(model: Model, prompt: Prompt, stack: AsyncExitStack) -> Events:
    """The events of a model's answer, open until `stack` is closed. Raises its refusal."""
    try:
        stream = await stack.enter_async_context(model.open(prompt))
    except ChatError as failure:
        failure.from_model = True
        raise
    return await stack.enter_async_context(aclosing(check_stream(stream)))


def make_context(
    request: ChatRequest, query: str, started: StartedAnswer, fallback_notes: Sequence[str]
) -> Context:
    """The context of an answer that a model has begun."""
    results, built, model = started.results, started.built, started.model.name
    steps = thoughts(request, query, results, built.prompt, model)
    all_notes = (
        *request.notes,
        *fallback_notes,
        *started.notes,
        *results.notes,
        *omission_notes(results, built),
    )
    if notes := tuple(dict.fromkeys(all_notes)):
        steps = (*steps, Step("What was used instead", notes))
    instructions = built.prompt.messages[0].content
    sources = results.sources[: built.fitted]
    return Context(
        sources,
        steps,
        model,
        started.captions,
        built.images,
        instructions,
        single_chunk="streaming" in started.model.limits,
        notes=notes,
        excluded=tuple(excluded_sources(results, built)),
    )


async def resolve_query(
    rag: Rag, request: ChatRequest, selected: SelectedModel
) -> tuple[str, Overrides]:
    """As `rewrite_question`, with the question itself where no model rewrites it in time.

    A note says so, and the log has the cause. Raises what fails before a model is called.
    """
    try:
        # Nothing is rewritten without turns before the question.
        async with asyncio.timeout(rag.rewrite_seconds if request.history else None) as limit:
            return await selected.run_with_fallback(partial(rewrite_question, rag, request))
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
    fitted, _ = fit_to_model(request, selected.model, rag.client_prompts)
    return fitted.question, fitted.overrides.with_defaults(rag.defaults)


async def rewrite_question(rag: Rag, request: ChatRequest, model: Model) -> tuple[str, Overrides]:
    """The question, rewritten so that it stands alone where there are turns before it, and the
    overrides that hold for a search for it.

    Raises TooLong where the model could not answer it in any case, before a model is called.
    """
    fitted, _ = fit_to_model(request, model, rag.client_prompts)
    overrides = fitted.overrides.with_defaults(rag.defaults)
    await asyncio.to_thread(rag.prompt_builder.check, fitted, overrides, rag.prompts, model)
    if not fitted.history:
        return fitted.question, overrides
    prompt = await asyncio.to_thread(prompts.build_rewrite_prompt, fitted, rag.prompts, model)
    async with AsyncExitStack() as stack:
        rewrite = await collect(await open_stream(model, prompt, stack))
    query = " ".join(rewrite.content.split()).strip('"')
    # "0" is how the prompt lets the model say that it cannot write one
    usable = query not in ("", "0") and len(query) <= MAX_QUERY_LENGTH
    complete = rewrite.done.finish_reason == "stop"
    return query if usable and complete else fitted.question, overrides


def thoughts(
    request: ChatRequest, query: str, results: SearchResult, prompt: Prompt, model: str
) -> tuple[Step, ...]:
    """The four steps of every answer, in the order and with the titles of the documents."""
    return (
        Step("Original user query", request.question),
        Step("Generated search query", query, results.props),
        Step(
            "Results",
            tuple(redact_acl(source, request.metadata.user) for source in results.sources),
        ),
        Step("Prompt", prompt.messages, {"model": model}),
    )


def redact_acl(source: Source, user: User) -> Source:
    """A source that names nobody but the caller: the ids of others are not theirs to read."""
    oids = tuple(oid for oid in source.oids if oid == user.oid)
    groups = tuple(group for group in source.groups if group in user.groups)
    return replace(source, oids=oids, groups=groups)


def excluded_sources(results: SearchResult, built: prompts.BuiltPrompt) -> Iterator[ExcludedSource]:
    """Results that may not be cited: first those without room in the prompt."""
    for source in results.sources[built.fitted :]:
        yield ExcludedSource(source, "rerank")
    yield from results.excluded


def omission_notes(results: SearchResult, built: prompts.BuiltPrompt) -> Iterator[str]:
    """Notes about results that are not in the prompt."""
    if number := len(results.sources) - built.fitted:
        yield f"{number} of the passages found did not fit the model and were left out."
    images = sum(source.image is not None for source in results.sources[: built.fitted])
    if number := images - len(built.images):
        yield f"{number} of the images found did not fit the model and were left out."


async def check_stream(stream: ModelStream) -> Events:
    """A model's stream up to its end. Raises ContentFiltered where the filter stopped it,
    Unavailable where it broke off."""
    try:
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, Done) and event.finish_reason == "content_filter":
                    raise ContentFiltered
                yield event
                if isinstance(event, Done):
                    return
        raise Unavailable("The model's answer broke off. Ask again.")
    except ChatError as failure:
        failure.from_model = True
        raise
