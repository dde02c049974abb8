"""The one path every request takes: rewrite, retrieve, prompt, stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace

from shared import prompt as prompts
from shared.chat import ChatRequest, Context, Done, Events, Source, Step, User, collect
from shared.errors import ContentFiltered, Unavailable
from shared.models import Model, ModelStream, Prompt
from shared.overrides import Overrides
from shared.retrieval import Found, Retriever

LONGEST_QUERY = 1000  # characters; a model that rewrites a question into more has lost the thread


@dataclass(frozen=True, slots=True)
class Rag:
    """What an answer is made with: the parts behind the seams, the words, the defaults."""

    retriever: Retriever
    model: Model
    words: prompts.Words
    defaults: Overrides
    client_prompts: bool = False


async def answer(rag: Rag, asked: ChatRequest) -> Events:
    """Answer a request as a stream: one Context, any Deltas, one Done.

    Everything that can be refused is refused before the Context. A failure is an exception, one
    of the ChatErrors where the caller can know why.
    """
    request, notes = possible(rag, asked)
    used = request.overrides.filled(rag.defaults)
    await asyncio.to_thread(prompts.check, request, used, rag.words, rag.model)
    query = await search_query(rag, request)
    found = await rag.retriever.search(request.user, query, used)
    # In a thread: counting megabytes would hold up every other answer of this worker.
    asking = await asyncio.to_thread(
        prompts.for_answer, request, used, rag.words, rag.model, found.sources
    )
    steps = thoughts(request, query, found, asking.prompt, rag.model.name)
    notes = (*notes, *found.notes, *left_out(found, asking))
    if notes:
        steps = (*steps, Step("What was used instead", notes))
    async with rag.model.open(asking.prompt) as stream, aclosing(checked(stream)) as events:
        captions = bool(used.semantic_captions)
        sources = found.sources[: asking.fitted]
        told = asking.prompt.messages[0].content
        yield Context(sources, steps, rag.model.name, captions, asking.images, told)
        async for event in events:
            yield event


def possible(rag: Rag, request: ChatRequest) -> tuple[ChatRequest, tuple[str, ...]]:
    """The request without what this deployment cannot do, and a sentence for each such thing."""
    notes = [rag.model.limits[name] for name in wanted(request) if name in rag.model.limits]
    if request.overrides.asked("prompt_template") and not rag.client_prompts:
        overrides = request.overrides.model_copy(update={"prompt_template": None})
        request = replace(request, overrides=overrides)
        notes.append(
            "prompt_template was left out: this deployment does not allow client prompts "
            "(ALLOW_CLIENT_PROMPTS)."
        )
    if "images" in rag.model.limits:
        request, blind = without_images(request, rag.model.name)
        notes += blind
    return request, tuple(notes)


def without_images(request: ChatRequest, model: str) -> tuple[ChatRequest, list[str]]:
    """The request for a model that does not see, and a sentence where it asked for images."""
    messages = tuple(replace(message, images=()) for message in request.messages)
    overrides = request.overrides.model_copy(update={"use_gpt4v": None})
    note = f"use_gpt4v was left out: {model} is not known to see images; text was used."
    notes = [note] if request.overrides.images else []
    return replace(request, messages=messages, overrides=overrides), notes


def wanted(request: ChatRequest) -> list[str]:
    """What a request asks of the model beside an answer, by the names of `Model.limits`."""
    names = [name for name in ("temperature", "seed") if request.overrides.asked(name)]
    images = any(message.images for message in request.messages)
    return ["images", *names] if images else names


async def search_query(rag: Rag, request: ChatRequest) -> str:
    """The question, rewritten so that it stands alone where there are turns before it."""
    if not request.history:
        return request.question
    prompt = await asyncio.to_thread(prompts.for_rewrite, request, rag.words, rag.model)
    async with rag.model.open(prompt) as stream:
        rewritten = await collect(checked(stream))
    query = " ".join(rewritten.content.split()).strip('"')
    # "0" is how the prompt lets the model say that it cannot write one
    usable = query not in ("", "0") and len(query) <= LONGEST_QUERY
    whole = rewritten.done.finish_reason == "stop"
    return query if usable and whole else request.question


def thoughts(
    request: ChatRequest, query: str, found: Found, prompt: Prompt, model: str
) -> tuple[Step, ...]:
    """The four steps of every answer, in the order and with the titles of the documents."""
    return (
        Step("Original user query", request.question),
        Step("Generated search query", query, found.props),
        Step("Results", tuple(own(source, request.user) for source in found.sources)),
        Step("Prompt", prompt.messages, {"model": model}),
    )


def own(source: Source, user: User) -> Source:
    """A source that names nobody but the caller: the ids of others are not theirs to read."""
    oids = tuple(oid for oid in source.oids if oid == user.oid)
    groups = tuple(group for group in source.groups if group in user.groups)
    return replace(source, oids=oids, groups=groups)


def left_out(found: Found, asking: prompts.Asked) -> Iterator[str]:
    """The notes about what was found and is not in the prompt."""
    if number := len(found.sources) - asking.fitted:
        yield f"{number} of the passages found did not fit the model and were left out."
    images = sum(source.image is not None for source in found.sources[: asking.fitted])
    if number := images - len(asking.images):
        yield f"{number} of the images found did not fit the model and were left out."


async def checked(stream: ModelStream) -> Events:
    """A model's stream up to its end. Raises ContentFiltered where the filter stopped it,
    Unavailable where it broke off."""
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, Done) and event.finish_reason == "content_filter":
                raise ContentFiltered
            yield event
            if isinstance(event, Done):
                return
    raise Unavailable("The model's answer broke off. Ask again.")
