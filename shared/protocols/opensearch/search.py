"""A search, with the answer that a pipeline makes of its hits."""

from __future__ import annotations

import time

from shared.chat.errors import BadRequest
from shared.chat.events import Context, Source
from shared.chat.overrides import Overrides
from shared.http.json_encoding import Json
from shared.memory.base import PageRequest
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch import search_json as wire
from shared.protocols.opensearch.errors import IndexNotFound
from shared.protocols.opensearch.generation import ConversationState, generate
from shared.protocols.opensearch.handler import owner_and_memory
from shared.protocols.opensearch.pipelines import DEFAULT, check_model, find_pipeline
from shared.protocols.opensearch.search_json import EXT, Pipeline, Question, Search
from shared.retrieval.base import shorten_query

NONE = "_none"  # what OpenSearch calls a search without any pipeline


async def search(exchange: Exchange) -> Json:
    """Answer a search. A model's failure stands beside the hits: clients repeat after a 503."""
    started = time.monotonic()
    index, call = exchange.app.index, exchange.call
    if call.path and call.path != index:
        raise IndexNotFound(f"no such index [{call.path}]: the index here is {index}")
    request = wire.search(exchange.body, call.query)
    pipeline = await _pipeline(exchange, request)
    conversation = await _conversation(exchange, request.question)
    sources = await _sources(exchange, request)
    exchange.record.record_event(Context(sources, (), exchange.engine.model.name))
    answer: Json = {}
    if pipeline and request.question:
        answer = await generate(exchange, pipeline, request.question, sources, conversation)
    milliseconds = int((time.monotonic() - started) * 1000)
    return wire.answer(index, request, sources, milliseconds) | answer


async def _pipeline(exchange: Exchange, request: Search) -> Pipeline | None:
    """The pipeline of the request; without a name the default one where there is a question."""
    question = request.question
    name = exchange.call.query.get("search_pipeline", DEFAULT if question else NONE)
    if name == NONE:
        return None
    pipeline = await find_pipeline(exchange, name)
    if question is None:
        raise BadRequest(f"{EXT}.llm_question: is required with a search pipeline")
    check_model(exchange, pipeline.model_id, f"the pipeline's model_id ({pipeline.model_id})")
    if question.model is not None:
        check_model(exchange, question.model, f"{EXT}.llm_model")
    return pipeline


async def _conversation(exchange: Exchange, question: Question | None) -> ConversationState | None:
    if question is None or question.conversation is None:
        return None
    owner, memory = owner_and_memory(exchange)
    page = PageRequest(0, question.interactions or 1)
    newest = await memory.interactions.list(owner, question.conversation, page)
    return ConversationState(owner, question.conversation, newest[: question.interactions][::-1])


async def _sources(exchange: Exchange, request: Search) -> tuple[Source, ...]:
    """The passages that the user may see."""
    if request.size == 0:
        return ()
    access, engine = exchange.app.access, exchange.engine
    user = access.get_user(exchange.call.headers)
    overrides = access.apply_filters(user, Overrides(top=request.size))
    used = overrides.with_defaults(engine.defaults)
    return (await engine.search(user, shorten_query(request.words), used)).sources
