"""The answer that a pipeline makes of the hits of a search, with the prompt of the document."""

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
from shared.memory.chat_history import store_turn, to_messages
from shared.models.base import Model, Prompt
from shared.models.fallback import SelectedModel
from shared.models.router import ModelSelection
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch import search_json as wire
from shared.protocols.opensearch.handler import get_memory
from shared.protocols.opensearch.search_json import RAG, Pipeline, Question
from shared.rag import prompt as prompts
from shared.rag.flow import open_stream

LEAST_SECONDS = 1.0  # for the model, however little is left of the request's time


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The conversation that an answer belongs to, and its newest interactions, oldest first."""

    owner: str
    id: str
    interactions: tuple[Interaction, ...]


@dataclass(frozen=True, slots=True)
class PipelinePrompt:
    """The messages for the model, and which contexts are in them."""

    messages: tuple[Message, ...]
    instructions: str
    contexts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _PromptInput:
    """What a prompt is built of."""

    pipeline: Pipeline
    question: Question
    contexts: Sequence[str]
    interactions: Sequence[Interaction]


async def generate(
    exchange: Exchange,
    pipeline: Pipeline,
    question: Question,
    sources: tuple[Source, ...],
    conversation: ConversationState | None,
) -> Json:
    """The answer, stored when it is whole; or why there is none."""
    contexts = wire.contexts(sources[: question.contexts], pipeline.context_field_list)
    interactions = conversation.interactions if conversation else ()
    parts = _PromptInput(pipeline, question, contexts, interactions)
    try:
        prompt, text = await _ask(exchange, parts)
    except ChatError as failure:
        exchange.record.record_failure(failure)
        return wire.failed(failure.message)
    result: tuple[str | None, str | None] = (None, None)
    if conversation is not None:
        turn, memory = _turn(question, prompt, text), get_memory(exchange)
        result = await store_turn(
            memory, conversation.owner, conversation.id, turn, exchange.call.id
        )
    return wire.generated(text, question.names, *result)


def _build_prompt(model: Model, parts: _PromptInput) -> PipelinePrompt:
    """The messages, in the order of the document: what does not fit is left out, as in a chat."""
    pipeline, contexts = parts.pipeline, parts.contexts
    system = [Message("system", pipeline.system_prompt)] if pipeline.system_prompt else []
    user = [Message("user", pipeline.user_instructions)] if pipeline.user_instructions else []
    question = (Message("user", f"QUESTION: {parts.question.text}"), Message("user", "ANSWER:"))
    room = prompts.remaining_tokens((*system, *user, *question), model)
    results = _fitting(contexts, room, model)
    room -= prompts.count_message_tokens(results, model.count)
    history = prompts.newest_turns(to_messages(parts.interactions), room, model)
    messages = (*system, *user, *results, *history, *question)
    instructions = "\n".join(message.content for message in (*system, *user))
    return PipelinePrompt(messages, instructions, tuple(contexts[: len(results)]))


def _fitting(contexts: Sequence[str], room: int, model: Model) -> list[Message]:
    """The first results that fit into `room` tokens together."""
    fitting: list[Message] = []
    for number, text in enumerate(contexts, 1):
        result = Message("user", f"SEARCH RESULT {number}: {text}")
        room -= prompts.count_message_tokens([result], model.count)
        if room < 0:
            break
        fitting.append(result)
    return fitting


async def _ask(exchange: Exchange, parts: _PromptInput) -> tuple[PipelinePrompt, str]:
    """The prompt that a model accepted, and its whole answer. Raises ChatErrors."""
    # A request that ends in a 504 would be repeated: there must be time to say what went wrong.
    left = exchange.deadline - asyncio.get_running_loop().time()
    left -= exchange.app.limits.storage_seconds
    seconds = min(parts.question.seconds, max(LEAST_SECONDS, left))
    try:
        async with asyncio.timeout(seconds), AsyncExitStack() as stack:
            temperature = exchange.engine.defaults.temperature or 0.0
            opening = partial(_open, parts, temperature, stack)
            prompt, events = await _select_model(exchange, seconds).run_with_fallback(opening)
            return prompt, (await collect(exchange.record.observe(events))).content
    except TimeoutError:
        raise DeadlineExceeded(f"The model did not answer within {seconds:.3g} seconds.") from None


def _select_model(exchange: Exchange, seconds: float) -> SelectedModel:
    """The models to ask, the first of which leaves the other half of the time."""
    selected = exchange.engine.select_model(ModelSelection(request_id=exchange.call.id))
    if selected.fallback is not None:
        limit = min(selected.fallback.seconds, seconds / 2)
        selected.fallback = replace(selected.fallback, seconds=limit)
    return selected


async def _open(
    parts: _PromptInput, temperature: float, stack: AsyncExitStack, model: Model
) -> tuple[PipelinePrompt, Events]:
    prompt = await asyncio.to_thread(_build_prompt, model, parts)
    return prompt, await open_stream(model, Prompt("answer", prompt.messages, temperature), stack)


def _turn(question: Question, prompt: PipelinePrompt, text: str) -> Turn:
    contexts = json.dumps(prompt.contexts, ensure_ascii=False)
    return Turn(question.text, prompt.instructions, text, RAG, contexts)
