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

LONGEST_QUERY = 1000  # characters; a model that rewrites a question into more has lost the thread
NOTHING = SearchResult((), {})
NOT_REWRITTEN = (
    "The question was searched for as it was asked: the model could not rewrite it ({why})."
)

log = logging.getLogger("chat")


@dataclass(frozen=True, slots=True)
class Rag:
    """What an answer is made with: the parts behind the seams, the words, the defaults.

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


async def answer(rag: Rag, asked: ChatRequest) -> Events:
    """Answer a request as a stream: one Context, any Deltas, one Done.

    Everything that can be refused is refused before the Context. A failure is an exception, one
    of the ChatErrors where the caller can know why.
    """
    choice = rag.models.select(model_selection(asked))
    query, found = asked.question, NOTHING
    if asked.search:
        query, used = await query_or_question(rag, asked, choice)
        query = shorten_query(query)
        found = await rag.retriever.search(asked.metadata.user, query, used)
        found = replace(found, notes=(*image_notes(asked, choice.model), *found.notes))
    async with AsyncExitStack() as stack:
        opened = await choice.run_with_fallback(partial(start_answer, rag, asked, found, stack))
        yield begun(asked, query, opened, choice.notes)
        async for event in opened.events:
            yield event


def model_selection(asked: ChatRequest) -> ModelSelection:
    """What a request says of who shall answer it."""
    overrides = asked.overrides
    return ModelSelection(overrides.hybrid_policy, overrides.model, asked.remote, asked.metadata.id)


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """An answer that a model has accepted to give: what it was asked, of what, and its events."""

    model: Model
    found: SearchResult
    asking: prompts.BuiltPrompt
    events: Events
    captions: bool
    notes: tuple[str, ...]


async def start_answer(
    rag: Rag, asked: ChatRequest, found: SearchResult, stack: AsyncExitStack, model: Model
) -> StartedAnswer:
    """Ask a model for the answer. Raises ChatErrors, the model's refusals among them."""
    request, notes = fit_to_model(asked, model, rag.client_prompts)
    used = request.overrides.with_defaults(rag.defaults)
    if "images" in model.limits:
        found = replace(found, sources=drop_images(found.sources))
    build = rag.prompt_builder.build
    # In a thread: counting megabytes would hold up every other answer of this worker.
    asking = await asyncio.to_thread(build, request, used, rag.prompts, model, found.sources)
    events = await accepted(model, asking.prompt, stack)
    captions = bool(used.semantic_captions)
    return StartedAnswer(model, found, asking, events, captions, notes)


async def accepted(model: Model, prompt: Prompt, stack: AsyncExitStack) -> Events:
    """What a model answers to a prompt, until `stack` is closed. Raises its refusal."""
    try:
        stream = await stack.enter_async_context(model.open(prompt))
    except ChatError as failure:
        failure.from_model = True
        raise
    return await stack.enter_async_context(aclosing(checked(stream)))


def begun(asked: ChatRequest, query: str, opened: StartedAnswer, instead: Sequence[str]) -> Context:
    """What is known when a model has accepted."""
    found, asking, model = opened.found, opened.asking, opened.model.name
    steps = thoughts(asked, query, found, asking.prompt, model)
    said = (*asked.notes, *instead, *opened.notes, *found.notes, *shortened(found, asking))
    if notes := tuple(dict.fromkeys(said)):
        steps = (*steps, Step("What was used instead", notes))
    told = asking.prompt.messages[0].content
    sources = found.sources[: asking.fitted]
    return Context(
        sources,
        steps,
        model,
        opened.captions,
        asking.images,
        told,
        single_chunk="streaming" in opened.model.limits,
        notes=notes,
        excluded=tuple(unused(found, asking)),
    )


async def query_or_question(
    rag: Rag, asked: ChatRequest, choice: SelectedModel
) -> tuple[str, Overrides]:
    """As `search_query`, with the question itself where no model rewrites it in time.

    A note tells, and the log has the cause. Raises what fails before a model is asked.
    """
    try:
        # Nothing is rewritten without turns before the question.
        async with asyncio.timeout(rag.rewrite_seconds if asked.history else None) as limit:
            return await choice.run_with_fallback(partial(search_query, rag, asked))
    except TimeoutError:
        if not limit.expired():  # somebody else's
            raise
        failure: ChatError = DeadlineExceeded(cause="no search query in time")
        choice.fall_back(failure)  # or the answer would wait for the same model again
    except ChatError as error:
        if not error.from_model:
            raise
        failure = error
    why, said = type(failure).__name__, failure.cause or failure.message
    log.warning("request id=%s rewrite %s: %s", asked.metadata.id, why, said)
    choice.notes.append(NOT_REWRITTEN.format(why=why))
    request, _ = fit_to_model(asked, choice.model, rag.client_prompts)
    return request.question, request.overrides.with_defaults(rag.defaults)


async def search_query(rag: Rag, asked: ChatRequest, model: Model) -> tuple[str, Overrides]:
    """The question, rewritten so that it stands alone where there are turns before it, and the
    overrides that hold for a search for it.

    Raises TooLong where the model could not answer it in any case, before anything is asked.
    """
    request, _ = fit_to_model(asked, model, rag.client_prompts)
    used = request.overrides.with_defaults(rag.defaults)
    await asyncio.to_thread(rag.prompt_builder.check, request, used, rag.prompts, model)
    if not request.history:
        return request.question, used
    prompt = await asyncio.to_thread(prompts.for_rewrite, request, rag.prompts, model)
    async with AsyncExitStack() as stack:
        rewritten = await collect(await accepted(model, prompt, stack))
    query = " ".join(rewritten.content.split()).strip('"')
    # "0" is how the prompt lets the model say that it cannot write one
    usable = query not in ("", "0") and len(query) <= LONGEST_QUERY
    whole = rewritten.done.finish_reason == "stop"
    return query if usable and whole else request.question, used


def thoughts(
    request: ChatRequest, query: str, found: SearchResult, prompt: Prompt, model: str
) -> tuple[Step, ...]:
    """The four steps of every answer, in the order and with the titles of the documents."""
    return (
        Step("Original user query", request.question),
        Step("Generated search query", query, found.props),
        Step("Results", tuple(own(source, request.metadata.user) for source in found.sources)),
        Step("Prompt", prompt.messages, {"model": model}),
    )


def own(source: Source, user: User) -> Source:
    """A source that names nobody but the caller: the ids of others are not theirs to read."""
    oids = tuple(oid for oid in source.oids if oid == user.oid)
    groups = tuple(group for group in source.groups if group in user.groups)
    return replace(source, oids=oids, groups=groups)


def unused(found: SearchResult, asking: prompts.BuiltPrompt) -> Iterator[ExcludedSource]:
    """What was found and may not be cited: the last ones, without room in the prompt, first."""
    for source in found.sources[asking.fitted :]:
        yield ExcludedSource(source, "rerank")
    yield from found.excluded


def shortened(found: SearchResult, asking: prompts.BuiltPrompt) -> Iterator[str]:
    """The notes about what was found and is not in the prompt."""
    if number := len(found.sources) - asking.fitted:
        yield f"{number} of the passages found did not fit the model and were left out."
    images = sum(source.image is not None for source in found.sources[: asking.fitted])
    if number := images - len(asking.images):
        yield f"{number} of the images found did not fit the model and were left out."


async def checked(stream: ModelStream) -> Events:
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
