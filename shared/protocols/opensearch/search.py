"""A search, with the answer that a pipeline makes of its hits."""

from __future__ import annotations

import time

from shared.chat.errors import BadRequest
from shared.chat.events import Context, Source
from shared.chat.overrides import Overrides
from shared.http.json_encoding import Json
from shared.memory.base import PageRequest
from shared.protocols.opensearch import search_json as wire
from shared.protocols.opensearch.errors import IndexNotFound
from shared.protocols.opensearch.generation import ConversationState, generated
from shared.protocols.opensearch.pipelines import DEFAULT, check_model, named
from shared.protocols.opensearch.request_context import RequestContext
from shared.protocols.opensearch.search_json import EXT, Pipeline, Question, Search
from shared.retrieval.base import shorten_query

NONE = "_none"  # what OpenSearch calls a search without any pipeline


async def search(asked: RequestContext) -> Json:
    """Answer a search. A model that fails is told beside the hits: clients repeat after a 503."""
    started = time.monotonic()
    store, call = asked.store, asked.call
    if call.path and call.path != store.index:
        raise IndexNotFound(f"no such index [{call.path}]: the index here is {store.index}")
    wanted = wire.search(asked.body, call.query)
    pipeline = await _pipeline(asked, wanted)
    talk = await _talk(asked, wanted.question)
    sources = await _found(asked, wanted)
    asked.record.record_event(Context(sources, (), store.engine.model.name))
    answer: Json = {}
    if pipeline and wanted.question:
        answer = await generated(asked, pipeline, wanted.question, sources, talk)
    milliseconds = int((time.monotonic() - started) * 1000)
    return wire.answer(store.index, wanted, sources, milliseconds) | answer


async def _pipeline(asked: RequestContext, wanted: Search) -> Pipeline | None:
    """The pipeline that is named; without a name the default one where a question is asked."""
    name = asked.call.query.get("search_pipeline", DEFAULT if wanted.question else NONE)
    if name == NONE:
        return None
    found = await named(asked.store, name)
    if wanted.question is None:
        raise BadRequest(f"{EXT}.llm_question: is required with a search pipeline")
    check_model(asked.store, found.model_id, f"the pipeline's model_id ({found.model_id})")
    if wanted.question.model is not None:
        check_model(asked.store, wanted.question.model, f"{EXT}.llm_model")
    return found


async def _talk(asked: RequestContext, question: Question | None) -> ConversationState | None:
    if question is None or question.conversation is None:
        return None
    owner, memory = asked.mine
    page = PageRequest(0, question.interactions or 1)
    newest = await memory.interactions.list(owner, question.conversation, page)
    return ConversationState(owner, question.conversation, newest[: question.interactions][::-1])


async def _found(asked: RequestContext, wanted: Search) -> tuple[Source, ...]:
    """The passages that the user may see."""
    if wanted.size == 0:
        return ()
    store = asked.store
    user = store.access.get_user(asked.call.headers)
    overrides = store.access.apply_filters(user, Overrides(top=wanted.size))
    used = overrides.with_defaults(store.engine.defaults)
    query = shorten_query(wanted.words)
    return (await store.engine.retriever.search(user, query, used)).sources
