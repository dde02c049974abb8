"""Generates the answer to the question of a search: a pipeline's prompt over the hits.

"RAG pipeline" of the document, whose sentences the table of parameters follows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from pydantic import BaseModel, Field

from shared.domain.concurrency import time_limit
from shared.domain.errors import BadRequest, ChatError, DeadlineExceeded
from shared.domain.events import Events, collect
from shared.domain.messages import Message
from shared.http.body import validate
from shared.http.call import Json
from shared.memory.base import Interaction, PageRequest, Turn
from shared.memory.chat_history import store_turn, to_messages
from shared.models.base import Model, Prompt
from shared.models.router import ModelSelection
from shared.models.selected_model import SelectedModel
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch.memory import V2_11, V2_12, MemoryApi, get_owner_and_memory
from shared.protocols.opensearch.pipelines import (
    DEFAULT,
    RAG,
    Pipeline,
    check_model,
    find_definition,
    parse_pipeline,
)
from shared.rag import prompt as prompts
from shared.rag.model_stream import open_stream

EXT = "ext.generative_qa_parameters"
NO_PIPELINE = "_none"  # OpenSearch's name for a search without any pipeline
MAX_INTERACTIONS = 100
MIN_SECONDS = 1.0  # for the model, however little is left of the request's time


class Question(BaseModel, strict=True):
    """The parameters of a question, under the names of both versions."""

    llm_question: str
    llm_model: str | None = None
    conversation_id: str | None = None
    memory_id: str | None = None
    context_size: int | None = Field(default=None, ge=1)  # hits that are used, None for all
    interaction_size: int | None = Field(default=None, ge=0, le=MAX_INTERACTIONS)
    message_size: int | None = Field(default=None, ge=0, le=MAX_INTERACTIONS)
    timeout: float | None = Field(default=None, gt=0)

    @property
    def conversation(self) -> str | None:
        return self.memory_id if self.conversation_id is None else self.conversation_id

    @property
    def interaction_count(self) -> int:
        """How many interactions of the conversation are used, the newest."""
        sizes = (self.interaction_size, self.message_size, 10)
        return next(size for size in sizes if size is not None)

    @property
    def seconds(self) -> float:
        """How long the model may take."""
        return self.timeout or 30.0

    @property
    def memory_api(self) -> MemoryApi:
        """The version whose names the client uses."""
        return V2_12 if {"memory_id", "message_size"} & self.model_fields_set else V2_11


def parse_question(body: Json) -> Question | None:
    """Parse the question of a search; None if there is none. Raises BadRequest."""
    ext = {} if body.get("ext") is None else body["ext"]
    parameters = ext.get("generative_qa_parameters") if isinstance(ext, dict) else ext
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise BadRequest(f"{EXT} must be an object")
    question = validate(Question, parameters, EXT)
    if not question.llm_question.strip():
        raise BadRequest(f"{EXT}.llm_question: must not be empty")
    if question.conversation_id is not None and question.memory_id is not None:
        raise BadRequest(f"{EXT}: conversation_id and memory_id are two names for one thing")
    return question


async def find_pipeline(exchange: Exchange, question: Question | None) -> Pipeline | None:
    """Return the pipeline that a search names, without a name the default one for a question.

    Raises NotFound, BadRequest.
    """
    name = exchange.call.query.get("search_pipeline", DEFAULT if question else NO_PIPELINE)
    if name == NO_PIPELINE:
        return None
    pipeline = parse_pipeline(await find_definition(exchange, name))
    if question is None:
        raise BadRequest(f"{EXT}.llm_question: is required with a search pipeline")
    check_model(exchange, pipeline.model_id, f"the pipeline's model_id ({pipeline.model_id})")
    if question.llm_model is not None:
        check_model(exchange, question.llm_model, f"{EXT}.llm_model")
    return pipeline


async def fetch_history(exchange: Exchange, question: Question | None) -> tuple[Interaction, ...]:
    """Return the newest interactions of the question's conversation, the oldest first.

    Raises NotFound, also for a question that uses none of them.
    """
    if question is None or question.conversation is None:
        return ()
    owner, memory = get_owner_and_memory(exchange)
    page = PageRequest(0, question.interaction_count or 1)
    newest = await memory.interactions.list(owner, question.conversation, page)
    return newest[: question.interaction_count][::-1]


@dataclass(frozen=True, slots=True)
class PromptInput:
    """What a prompt is built of."""

    pipeline: Pipeline
    question: Question
    contexts: Sequence[str]
    interactions: Sequence[Interaction]  # the oldest first


@dataclass(frozen=True, slots=True)
class PipelinePrompt:
    """The messages for the model, and which contexts are in them."""

    messages: tuple[Message, ...]
    instructions: str
    contexts: Sequence[str]


async def generate(exchange: Exchange, inputs: PromptInput) -> Json:
    """Return what a pipeline adds to the response of a search: the answer, or why there is none.

    A whole answer is stored in the conversation of the question, if it names one.
    """
    try:
        prompt, text = await _ask_model(exchange, inputs)
    except ChatError as failure:
        exchange.record.record_failure(failure)
        return {"ext": {RAG: {"error": failure.message}}}
    stored = await _store(exchange, inputs.question, prompt, text)
    return {"ext": {RAG: {"answer": text, **stored}}}


async def _ask_model(exchange: Exchange, inputs: PromptInput) -> tuple[PipelinePrompt, str]:
    """Return the prompt that a model accepted, and its whole answer. Raises ChatErrors."""
    # A request that ends in a 504 would be repeated: there must be time to say what went wrong.
    left = exchange.deadline - asyncio.get_running_loop().time()
    left -= exchange.app.limits.storage_seconds
    seconds = min(inputs.question.seconds, max(MIN_SECONDS, left))
    failure = DeadlineExceeded(f"The model did not answer within {seconds:.3g} seconds.")
    async with time_limit(seconds, failure), AsyncExitStack() as stack:
        selected = _select_model(exchange, inputs, seconds)
        attempt = partial(_open, exchange, inputs, selected, stack)
        prompt, events = await selected.run_with_fallback(attempt)
        return prompt, (await collect(exchange.record.observe(events))).content


def _select_model(exchange: Exchange, inputs: PromptInput, seconds: float) -> SelectedModel:
    """Select the model and its fallback, to which half of the time is left.

    The question's `llm_model` overrides the pipeline's `model_id`, as in the document.
    """
    name = inputs.question.llm_model or inputs.pipeline.model_id
    model = None if name == exchange.rag.model.name else name
    selection = ModelSelection(model=model, request_id=exchange.call.id)
    selected = exchange.rag.models.select(selection)
    if selected.fallback is not None:
        limit = min(selected.fallback.seconds, seconds / 2)
        selected.fallback = replace(selected.fallback, seconds=limit)
    return selected


async def _open(
    exchange: Exchange, inputs: PromptInput, selected: SelectedModel, stack: AsyncExitStack
) -> tuple[PipelinePrompt, Events]:
    """Build the prompt for a model, and open the stream of its answer."""
    built = await asyncio.to_thread(_build_prompt, selected.model, inputs)
    prompt = Prompt("answer", built.messages, exchange.rag.defaults.temperature or 0.0)
    stream = open_stream(selected, prompt, exchange.record.span)
    return built, await stack.enter_async_context(stream)


def _build_prompt(model: Model, inputs: PromptInput) -> PipelinePrompt:
    """Build the messages in the document's order; what does not fit is left out, as in a chat."""
    pipeline, text = inputs.pipeline, inputs.question.llm_question
    system = [Message("system", pipeline.system_prompt)] if pipeline.system_prompt else []
    user = [Message("user", pipeline.user_instructions)] if pipeline.user_instructions else []
    question = (Message("user", f"QUESTION: {text}"), Message("user", "ANSWER:"))
    room = prompts.remaining_tokens((*system, *user, *question), model)
    results = _fit_results(inputs.contexts, room, model)
    room -= prompts.count_message_tokens(results, model.count)
    history = prompts.newest_turns(to_messages(inputs.interactions), room, model)
    messages = (*system, *user, *results, *history, *question)
    instructions = "\n".join(message.content for message in (*system, *user))
    return PipelinePrompt(messages, instructions, inputs.contexts[: len(results)])


def _fit_results(contexts: Sequence[str], room: int, model: Model) -> list[Message]:
    """Return the messages of the first contexts that fit into `room` tokens together."""
    results: list[Message] = []
    for number, text in enumerate(contexts, 1):
        result = Message("user", f"SEARCH RESULT {number}: {text}")
        room -= prompts.count_message_tokens([result], model.count)
        if room < 0:
            break
        results.append(result)
    return results


async def _store(exchange: Exchange, question: Question, prompt: PipelinePrompt, text: str) -> Json:
    """Store an answer in its conversation. Returns the id of the interaction, or a warning."""
    if question.conversation is None:
        return {}
    owner, memory = get_owner_and_memory(exchange)
    contexts = json.dumps(prompt.contexts, ensure_ascii=False)
    instructions = prompt.instructions if exchange.rag.thoughts else ""
    turn = Turn(question.llm_question, instructions, text, RAG, contexts, request=exchange.call.id)
    interaction, warning = await store_turn(memory, owner, question.conversation, turn)
    result = {question.memory_api.interaction_id: interaction, "warning": warning}
    return {key: value for key, value in result.items() if value}
