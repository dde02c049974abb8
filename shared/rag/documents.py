"""Adds the documents that a request names to the passages of its answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if, time_limit
from shared.domain.errors import ChatError, DeadlineExceeded
from shared.domain.events import Source
from shared.rag.inputs import AnswerInputs, is_large
from shared.rag.prompt import fit_sources
from shared.rag.whole_documents import (
    MAX_DOCUMENTS,
    MAX_TOKENS,
    count_document,
    measure_room,
    read_document,
)
from shared.retrieval.base import DocumentRetriever, MentionRetriever, SearchResult, distinct

NOT_WHOLE = "The named files are too long to be used whole: passages of them were used."
NOT_READ = (
    "Documents that the question names, if there are any, were not used whole: they cannot be read."
)

log = logging.getLogger("chat")


async def add_documents(inputs: AnswerInputs, query: str, results: SearchResult) -> SearchResult:
    """Return passages of the documents that the request or its question names, then those of a
    search that fit beside them.

    Each document is whole if it fits, in its order; of the others it is the best passages, and of
    all if the request wants none whole. What fails about the documents of the question is a note.
    Raises ChatErrors.
    """
    named = inputs.request.documents
    try:
        async with time_limit(inputs.rag.mention_seconds, DeadlineExceeded(cause="it stalls")):
            if mentioned := await _find_mentioned(inputs):
                names = (*named, *mentioned)[:MAX_DOCUMENTS]
                return await _add(inputs, query, results, names)
    except ChatError as error:
        log.warning("documents of the question: not read: %s", error.cause or error.message)
        results = replace(results, notes=(*results.notes, NOT_READ))
    return await _add(inputs, query, results, named) if named else results


async def _find_mentioned(inputs: AnswerInputs) -> tuple[str, ...]:
    """Return the names of the user's documents that the question contains, beside those that the
    request names. Raises ChatErrors.
    """
    request, retriever = inputs.fit_request().request, inputs.rag.retriever
    overrides = request.overrides
    if overrides.use_whole_documents is False or not isinstance(retriever, MentionRetriever):
        return ()
    user = request.metadata.user
    found = await retriever.find_mentioned(user, request.question, overrides)
    named = set(map(_file_name, request.documents))  # another one of this name is not meant
    return tuple(each for each in found if _file_name(each) not in named)


def _file_name(sourcefile: str) -> str:
    return sourcefile.rpartition("/")[2]


async def _add(
    inputs: AnswerInputs, query: str, results: SearchResult, names: tuple[str, ...]
) -> SearchResult:
    """Return passages of documents, then those of a search that fit. Raises ChatErrors."""
    fitted = inputs.fit_request()
    wants_whole = fitted.request.overrides.use_whole_documents is not False
    room = await measure_room(inputs)
    whole, others, size = list[Source](), names, 0
    if wants_whole:
        whole, others, size = await _read_whole(inputs, names, min(room, MAX_TOKENS))
    best = await _search(inputs, query, others) if others else SearchResult((), {})
    ids = {source.id for source in (*whole, *best.sources)}
    found = distinct((*whole, *best.sources, *results.sources))
    rest = (*best.sources, *(each for each in found if each.id not in ids))
    fit = partial(fit_sources, rest, room - size, fitted.model)
    notes = (NOT_WHOLE,) if others and wants_whole else ()
    return replace(
        results,
        sources=(*whole, *await run_in_thread_if(is_large(fitted.request, rest), fit)),
        excluded=tuple(each for each in results.excluded if each.source.id not in ids),
        notes=(*results.notes, *best.notes, *notes),
    )


async def _read_whole(
    inputs: AnswerInputs, names: Sequence[str], room: int
) -> tuple[list[Source], tuple[str, ...], int]:
    """Return the passages of the documents that fit, the names of the others, and the tokens of the
    passages. Raises ChatErrors.
    """
    whole, others, size = list[Source](), list[str](), 0
    for name in names:
        passages = await read_document(inputs, name)
        tokens = await count_document(inputs, passages)
        if tokens is not None and size + tokens <= room:
            whole, size = [*whole, *passages], size + tokens
        else:
            others.append(name)
    return whole, tuple(others), size


async def _search(inputs: AnswerInputs, query: str, names: Sequence[str]) -> SearchResult:
    """Return the best passages of documents, as many as a search returns. Raises ChatErrors."""
    request, retriever = inputs.fit_request().request, inputs.rag.retriever
    if not isinstance(retriever, DocumentRetriever):
        return SearchResult((), {})
    search = retriever.search_documents(request.metadata.user, query, names, request.overrides)
    return await inputs.rag.trace(search, inputs.span)
