"""Adds the documents that a request names to the passages of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if
from shared.domain.events import Source
from shared.rag.inputs import AnswerInputs, is_large
from shared.rag.prompt import fit_sources
from shared.rag.whole_documents import MAX_TOKENS, count_document, measure_room, read_document
from shared.retrieval.base import DocumentRetriever, SearchResult, distinct

NOT_WHOLE = "The named files are too long to be used whole: passages of them were used."


async def add_documents(inputs: AnswerInputs, query: str, results: SearchResult) -> SearchResult:
    """Return passages of the named documents, then those of a search that fit beside them.

    Each document is whole if it fits, in its order; of the others it is the best passages, and of
    all if the request wants none whole. Raises ChatErrors.
    """
    fitted = inputs.fit_request()
    names, wants_whole = fitted.request.documents, fitted.request.overrides.use_whole_documents
    room = await measure_room(inputs)
    whole, others, size = list[Source](), names, 0
    if wants_whole is not False:
        whole, others, size = await _read_whole(inputs, min(room, MAX_TOKENS))
    best = await _search(inputs, query, others) if others else SearchResult((), {})
    ids = {source.id for source in (*whole, *best.sources)}
    found = distinct((*whole, *best.sources, *results.sources))
    rest = (*best.sources, *(each for each in found if each.id not in ids))
    fit = partial(fit_sources, rest, room - size, fitted.model)
    notes = (NOT_WHOLE,) if others and wants_whole is not False else ()
    return replace(
        results,
        sources=(*whole, *await run_in_thread_if(is_large(fitted.request, rest), fit)),
        excluded=tuple(each for each in results.excluded if each.source.id not in ids),
        notes=(*results.notes, *best.notes, *notes),
    )


async def _read_whole(inputs: AnswerInputs, room: int) -> tuple[list[Source], tuple[str, ...], int]:
    """Return the passages of the documents that fit, the names of the others, and the tokens of the
    passages. Raises ChatErrors.
    """
    whole, others, size = list[Source](), list[str](), 0
    for name in inputs.request.documents:
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
