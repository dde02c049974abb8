"""The one path every request takes: rewrite, retrieve, prompt, stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if, with_deadline
from shared.domain.events import Context, Events, ExcludedSource, Source, Step
from shared.domain.request import ChatRequest, User
from shared.memory.chat_history import AnswerStore
from shared.models.router import ModelSelection
from shared.models.selected_model import drop_images
from shared.rag.followups import extract_followups
from shared.rag.inputs import AnswerInputs, Rag, is_large
from shared.rag.model_stream import open_stream
from shared.rag.prompt import COMPOSED, BuiltPrompt, PromptBuilder
from shared.rag.search import find_passages
from shared.retrieval.base import SearchResult
from shared.telemetry.access_log import NOOP_TRACER, AccessLog, Span

NO_RESULTS = SearchResult((), {})


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
        query, results = await find_passages(inputs)
    async with AsyncExitStack() as stack:
        start = partial(start_answer, inputs, query, results, stack)
        context, events = await selected.run_with_fallback(start)
        yield context
        async for event in events:
            yield event


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
    inputs: AnswerInputs, query: str, results: SearchResult, built: BuiltPrompt
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
        search_tokens=results.tokens,
    )


def redact_acl(source: Source, user: User) -> Source:
    """Return a source without the ids of other users and groups: they are not the caller's to
    read."""
    oids = tuple(oid for oid in source.oids if oid == user.oid)
    groups = tuple(group for group in source.groups if group in user.groups)
    return replace(source, oids=oids, groups=groups)


def omission_notes(results: SearchResult, built: BuiltPrompt) -> Iterator[str]:
    """Yield notes about results that are not in the prompt."""
    if number := len(results.sources) - built.fitted:
        yield f"{number} of the passages found did not fit the model and were left out."
    images = sum(source.image is not None for source in results.sources[: built.fitted])
    if number := images - len(built.images):
        yield f"{number} of the images found did not fit the model and were left out."
