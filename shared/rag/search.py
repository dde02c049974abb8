"""Searches for the passages of an answer: by a query of the question, or by the conversation."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if
from shared.domain.errors import ChatError, DeadlineExceeded
from shared.domain.events import ExcludedSource, collect
from shared.domain.overrides import Overrides
from shared.domain.request import ChatRequest
from shared.models.base import Prompt
from shared.models.selected_model import image_notes
from shared.rag import prompt as prompts
from shared.rag.documents import add_documents
from shared.rag.inputs import AnswerInputs, SearchStep, is_large
from shared.rag.model_stream import open_stream
from shared.rag.whole_documents import use_whole_documents
from shared.retrieval.base import (
    ConversationRetriever,
    Retriever,
    SearchResult,
    check_lengths,
    shorten_query,
)

MAX_QUERY_LENGTH = 1000  # characters; a longer rewrite of a question is of no use
NOT_REWRITTEN = (
    "The question was searched for as it was asked: the model could not rewrite it ({why})."
)
IRRELEVANT = (
    "No passage of the search was used: the relevance of the best, {:.2f}, is below the minimum of "
    "{:.2f}."
)

log = logging.getLogger("chat")


async def find_passages(inputs: AnswerInputs) -> tuple[str, SearchResult]:
    """Search by the app's search step. Returns the query, and what may be used of the result.

    Raises ChatErrors.
    """
    query, results = await inputs.rag.search_step(inputs)
    results = drop_irrelevant(results, inputs.rag.minimum_relevance)
    results = await add_documents(inputs, query, results)
    results = await use_whole_documents(inputs, results)
    notes = image_notes(inputs.request, inputs.selected.model)
    return query, replace(results, notes=(*notes, *results.notes))


def select_search_step(retriever: Retriever) -> SearchStep:
    """Return the search step of a retriever: by the conversation if it has such a search."""
    if isinstance(retriever, ConversationRetriever):
        return partial(search_by_conversation, retriever)
    return search_by_query


async def search_by_query(inputs: AnswerInputs) -> tuple[str, SearchResult]:
    """Search by a query that makes sense without the history. Raises ChatErrors."""
    query, overrides = await resolve_query(inputs)
    query = shorten_query(query)
    user = inputs.request.metadata.user
    return query, await inputs.rag.search(user, query, overrides, inputs.span)


async def search_by_conversation(
    retriever: ConversationRetriever, inputs: AnswerInputs
) -> tuple[str, SearchResult]:
    """Search by the question and the newest turns before it. Raises ChatErrors."""
    fitted = await inputs.selected.run_with_fallback(partial(check_room, inputs))
    user, overrides = fitted.metadata.user, fitted.overrides
    check_lengths("", overrides)
    _, *messages = (await build_rewrite_prompt(inputs, fitted)).messages
    search = retriever.search_conversation(user, messages, overrides)
    return fitted.question, await inputs.rag.trace(search, inputs.span)


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
    fitted = await check_room(inputs)
    if not fitted.history:
        return fitted.question, fitted.overrides
    prompt = await build_rewrite_prompt(inputs, fitted)
    async with open_stream(inputs.selected, prompt, inputs.span) as events:
        rewrite = await collect(events)
    query = " ".join(rewrite.content.split()).strip('"')
    # "0" is how the prompt lets the model say that it cannot write one.
    usable = query not in ("", "0") and len(query) <= MAX_QUERY_LENGTH
    complete = rewrite.done.finish_reason == "stop"
    return query if usable and complete else fitted.question, fitted.overrides


async def build_rewrite_prompt(inputs: AnswerInputs, fitted: ChatRequest) -> Prompt:
    """Return instructions, the newest turns that fit the model, and the question.

    Raises TooLong.
    """
    texts, model = inputs.rag.prompts, inputs.selected.model
    build = partial(prompts.build_rewrite_prompt, fitted, texts, model)
    return await run_in_thread_if(is_large(fitted), build)


async def check_room(inputs: AnswerInputs) -> ChatRequest:
    """Return the request, fitted to the model. Raises TooLong if the model cannot answer it."""
    fitted = inputs.fit_request().request
    room = partial(inputs.prompt_builder.room, fitted, inputs.rag.prompts, inputs.selected.model)
    await run_in_thread_if(is_large(fitted), room)
    return fitted
