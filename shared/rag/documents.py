"""Adds the documents that a request names to the passages of its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if
from shared.domain.events import Source
from shared.rag.inputs import AnswerInputs, is_large
from shared.rag.prompt import count_message_tokens, fit_sources
from shared.retrieval.base import DocumentRetriever, FilePart, SearchResult, distinct

MAX_TOKENS = 20_000  # of the passages of all documents that a model gets whole
_MAX_CHARACTERS = 8 * MAX_TOKENS  # of their texts, beyond which no tokens are counted
_HISTORY_SHARE = 4  # so many times its tokens are in the room of a prompt, if it needs as much
NOT_WHOLE = "The named files are too long to be used whole: passages of them were used."


async def add_documents(inputs: AnswerInputs, query: str, results: SearchResult) -> SearchResult:
    """Return passages of the named documents, then those of a search that fit beside them.

    Each document is whole if it fits, in its order; of the others it is the best passages. Raises
    ChatErrors.
    """
    whole, others = await _read_whole(inputs)
    best = await _search(inputs, query, others) if others else ()
    documents = (*whole, *best)
    ids = {source.id for source in documents}
    rest = [each for each in distinct((*documents, *results.sources)) if each.id not in ids]
    sources = await _in_thread(inputs, (*documents, *rest))
    excluded = (each for each in results.excluded if each.source.id not in ids)
    notes = (NOT_WHOLE,) if others else ()
    return replace(
        results, sources=sources, excluded=tuple(excluded), notes=(*results.notes, *notes)
    )


async def _read_whole(inputs: AnswerInputs) -> tuple[Sequence[Source], Sequence[str]]:
    """Return the passages of the documents that fit, and the names of the others."""
    request, retriever = inputs.fit_request().request, inputs.rag.retriever
    user, overrides = request.metadata.user, request.overrides
    whole: tuple[Source, ...] = ()
    others: list[str] = []
    for name in request.documents:
        part = FilePart(characters=_MAX_CHARACTERS)
        longer = (*whole, *await retriever.list_passages(user, name, overrides, part))
        is_short = sum(len(each.content) for each in longer) < _MAX_CHARACTERS
        if is_short and len(await _in_thread(inputs, longer, MAX_TOKENS)) == len(longer):
            whole = longer
        else:
            others.append(name)
    return whole, others


async def _in_thread(
    inputs: AnswerInputs, sources: Sequence[Source], tokens: int | None = None
) -> tuple[Source, ...]:
    """Return the first sources that fit the prompt, and have so many tokens at most."""
    is_long = is_large(inputs.fit_request().request, sources)
    return await run_in_thread_if(is_long, partial(_fit, inputs, sources, tokens))


def _fit(inputs: AnswerInputs, sources: Sequence[Source], tokens: int | None) -> tuple[Source, ...]:
    fitted = inputs.fit_request()
    room = inputs.prompt_builder.room(fitted.request, inputs.rag.prompts, fitted.model)
    history = count_message_tokens(fitted.request.history, fitted.model.count)
    room -= min(history, room // _HISTORY_SHARE)
    return fit_sources(sources, room if tokens is None else min(room, tokens), fitted.model)


async def _search(inputs: AnswerInputs, query: str, names: Sequence[str]) -> Iterable[Source]:
    """Return the best passages of documents, as many as a search returns."""
    request, retriever = inputs.fit_request().request, inputs.rag.retriever
    if not isinstance(retriever, DocumentRetriever):
        return ()
    search = retriever.search_documents(request.metadata.user, query, names, request.overrides)
    return (await inputs.rag.trace(search, inputs.span)).sources
