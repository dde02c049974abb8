"""The answer that a pipeline makes of the hits of a search, as the document tells a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from shared.chat.errors import ChatError, DeadlineExceeded
from shared.chat.events import Events, Source, collect
from shared.chat.messages import Message
from shared.http.json_encoding import Json
from shared.memory.base import Interaction, Turn
from shared.memory.chat_history import stored, turns
from shared.models.base import Model, Prompt
from shared.models.fallback import SelectedModel
from shared.models.router import ModelSelection
from shared.protocols.opensearch import search_json as wire
from shared.protocols.opensearch.request_context import RequestContext
from shared.protocols.opensearch.search_json import RAG, Pipeline, Question
from shared.rag import prompt as prompts
from shared.rag.flow import accepted

LEAST_SECONDS = 1.0  # for the model, however little is left of the request's time


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The conversation that an answer belongs to, and its newest interactions, oldest first."""

    owner: str
    id: str
    before: tuple[Interaction, ...]


@dataclass(frozen=True, slots=True)
class PipelinePrompt:
    """What the model is told, and which contexts are in it."""

    messages: tuple[Message, ...]
    instructions: str
    contexts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Asking:
    """What there is to tell a model."""

    pipeline: Pipeline
    question: Question
    texts: Sequence[str]
    before: Sequence[Interaction]


async def generated(
    asked: RequestContext,
    pipeline: Pipeline,
    question: Question,
    sources: tuple[Source, ...],
    talk: ConversationState | None,
) -> Json:
    """The answer, stored when it is whole; or why there is none."""
    texts = wire.contexts(sources[: question.contexts], pipeline.context_field_list)
    before = talk.before if talk else ()
    try:
        told, said = await _said(
            asked, question.seconds, _Asking(pipeline, question, texts, before)
        )
    except ChatError as failure:
        asked.record.record_failure(failure)
        return wire.failed(failure.message)
    kept: tuple[str | None, str | None] = (None, None)
    if talk is not None:
        whole = _interaction(question, told, said)
        memory = asked.store.kept
        kept = await stored(memory, talk.owner, talk.id, whole, asked.call.id)
    return wire.generated(said, question.names, *kept)


def _told(model: Model, told: _Asking) -> PipelinePrompt:
    """The messages, in the order of the document: what does not fit is left out, as in a chat."""
    pipeline, texts = told.pipeline, told.texts
    system = [Message("system", pipeline.system_prompt)] if pipeline.system_prompt else []
    user = [Message("user", pipeline.user_instructions)] if pipeline.user_instructions else []
    asking = (Message("user", f"QUESTION: {told.question.text}"), Message("user", "ANSWER:"))
    room = prompts.room_for((*system, *user, *asking), model)
    results = _fitting(texts, room, model)
    room -= prompts.cost(results, model.count)
    history = prompts.newest(turns(told.before), room, model)
    messages = (*system, *user, *results, *history, *asking)
    instructions = "\n".join(message.content for message in (*system, *user))
    return PipelinePrompt(messages, instructions, tuple(texts[: len(results)]))


def _fitting(texts: Sequence[str], room: int, model: Model) -> list[Message]:
    """The first results that fit into `room` tokens together."""
    kept: list[Message] = []
    for number, text in enumerate(texts, 1):
        result = Message("user", f"SEARCH RESULT {number}: {text}")
        room -= prompts.cost([result], model.count)
        if room < 0:
            break
        kept.append(result)
    return kept


async def _said(
    asked: RequestContext, seconds: float, asking: _Asking
) -> tuple[PipelinePrompt, str]:
    """What a model was told, and its whole answer. Raises ChatErrors."""
    # A request that ends in a 504 would be repeated: there must be time to say what went wrong.
    left = asked.deadline - asyncio.get_running_loop().time() - asked.store.kept_back
    seconds = min(seconds, max(LEAST_SECONDS, left))
    engine = asked.store.engine
    try:
        async with asyncio.timeout(seconds), AsyncExitStack() as stack:
            opening = partial(_opened, asking, engine.defaults.temperature or 0.0, stack)
            told, events = await _chosen(asked, seconds).run_with_fallback(opening)
            return told, (await collect(asked.record.observe(events))).content
    except TimeoutError:
        raise DeadlineExceeded(f"The model did not answer within {seconds:.3g} seconds.") from None


def _chosen(asked: RequestContext, seconds: float) -> SelectedModel:
    """The models to ask, the first of which leaves the other half of the time."""
    choice = asked.store.engine.models.choice(ModelSelection(request=asked.call.id))
    if choice.fallback is not None:
        limit = min(choice.fallback.seconds, seconds / 2)
        choice.fallback = replace(choice.fallback, seconds=limit)
    return choice


async def _opened(
    asking: _Asking, temperature: float, stack: AsyncExitStack, model: Model
) -> tuple[PipelinePrompt, Events]:
    told = await asyncio.to_thread(_told, model, asking)
    return told, await accepted(model, Prompt("answer", told.messages, temperature), stack)


def _interaction(question: Question, told: PipelinePrompt, said: str) -> Turn:
    contexts = json.dumps(told.contexts, ensure_ascii=False)
    return Turn(question.text, told.instructions, said, RAG, contexts)
