"""Adds the documents that a request names to the passages of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if
from shared.domain.events import Source
from shared.rag.inputs import AnswerInputs, is_large
from shared.rag.prompt import count_message_tokens, count_source_tokens, fit_sources
from shared.retrieval.base import DocumentRetriever, FilePart, SearchResult, distinct

MAX_TOKENS = 20_000  # of the passages of all documents that a model gets whole
MAX_CHARACTERS = 8 * MAX_TOKENS  # of one that can be whole: of a longer one no tokens are counted
HISTORY_SHARE = 4  # one token in four of the room for passages is the history's, if it needs it
NOT_WHOLE = "The named files are too long to be used whole: passages of them were used."


async def add_documents(inputs: AnswerInputs, query: str, results: SearchResult) -> SearchResult:
    """Return passages of the named documents, then those of a search that fit beside them.

    Each document is whole if it fits, in its order; of the others it is the best passages. Raises
    ChatErrors.
    """
    fitted = inputs.fit_request()
    room = await run_in_thread_if(is_large(fitted.request), partial(_measure_room, inputs))
    whole, others, size = await _read_whole(inputs, min(room, MAX_TOKENS))
    best = await _search(inputs, query, others) if others else SearchResult((), {})
    ids = {source.id for source in (*whole, *best.sources)}
    found = distinct((*whole, *best.sources, *results.sources))
    rest = (*best.sources, *(each for each in found if each.id not in ids))
    fit = partial(fit_sources, rest, room - size, fitted.model)
    return replace(
        results,
        sources=(*whole, *await run_in_thread_if(is_large(fitted.request, rest), fit)),
        excluded=tuple(each for each in results.excluded if each.source.id not in ids),
        notes=(*results.notes, *best.notes, NOT_WHOLE) if others else results.notes,
    )


def _measure_room(inputs: AnswerInputs) -> int:
    """Return the tokens left for passages beside the history. Raises TooLong."""
    fitted = inputs.fit_request()
    room = inputs.prompt_builder.room(fitted.request, inputs.rag.prompts, fitted.model)
    history = count_message_tokens(fitted.request.history, fitted.model.count)
    return room - min(history, room // HISTORY_SHARE)


async def _read_whole(
    inputs: AnswerInputs, room: int
) -> tuple[Sequence[Source], Sequence[str], int]:
    """Return the passages of the documents that fit, the names of the others, and the tokens of the
    passages. Raises ChatErrors.
    """
    request, retriever = inputs.fit_request().request, inputs.rag.retriever
    user, part = request.metadata.user, FilePart(characters=MAX_CHARACTERS)
    whole, others, size = list[Source](), list[str](), 0
    for name in request.documents:
        passages = await retriever.list_passages(user, name, request.overrides, part)
        tokens = await _count_tokens(inputs, passages)
        if tokens is not None and size + tokens <= room:
            whole, size = [*whole, *passages], size + tokens
        else:
            others.append(name)
    return whole, others, size


async def _count_tokens(inputs: AnswerInputs, passages: Sequence[Source]) -> int | None:
    """Count the tokens of a document; None if it is too long to be whole."""
    if sum(len(each.content) for each in passages) >= MAX_CHARACTERS:
        return None
    fitted = inputs.fit_request()
    counts = map(partial(count_source_tokens, model=fitted.model), passages)
    return await run_in_thread_if(is_large(fitted.request, passages), partial(sum, counts))


async def _search(inputs: AnswerInputs, query: str, names: Sequence[str]) -> SearchResult:
    """Return the best passages of documents, as many as a search returns. Raises ChatErrors."""
    request, retriever = inputs.fit_request().request, inputs.rag.retriever
    if not isinstance(retriever, DocumentRetriever):
        return SearchResult((), {})
    search = retriever.search_documents(request.metadata.user, query, names, request.overrides)
    return await inputs.rag.trace(search, inputs.span)
