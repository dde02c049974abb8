"""Adds the documents that a request names to the passages of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from shared.domain.concurrency import run_in_thread_if
from shared.domain.events import Source
from shared.domain.overrides import MAX_TOP
from shared.rag.inputs import AnswerInputs, is_large
from shared.retrieval.base import FilePart, SearchResult, distinct

MAX_TOKENS = 20_000  # of all documents that a model gets whole
_MAX_CHARACTERS = 8 * MAX_TOKENS  # beyond which no tokens are counted
NOT_WHOLE = "The named files are too long for the model together: it got passages of them."


async def add_documents(inputs: AnswerInputs, query: str, results: SearchResult) -> SearchResult:
    """Return the passages of the named documents, then those of a search.

    Documents that fit the model are whole, in their order. Else they are searched, too. Raises
    ChatErrors.
    """
    passages, notes = await _read_whole(inputs), results.notes
    if passages is None:
        passages, notes = await _search(inputs, query), (*notes, NOT_WHOLE)
    ids = {source.id for source in passages}
    return replace(
        results,
        sources=tuple(distinct((*passages, *results.sources))),
        excluded=tuple(each for each in results.excluded if each.source.id not in ids),
        notes=notes,
    )


async def _read_whole(inputs: AnswerInputs) -> Sequence[Source] | None:
    """Return all passages of the documents; None if they do not fit the model."""
    rag, request = inputs.rag, inputs.fit_request().request
    user, part = request.metadata.user, FilePart(characters=_MAX_CHARACTERS)
    read = partial(rag.retriever.list_passages, user, overrides=request.overrides, part=part)
    lists = await asyncio.gather(*map(read, request.documents))
    passages = [source for each in lists for source in each]
    if sum(len(each.content) for each in passages) >= _MAX_CHARACTERS:
        return None
    room = partial(_measure_room, inputs, passages)
    return passages if await run_in_thread_if(is_large(request, passages), room) >= 0 else None


def _measure_room(inputs: AnswerInputs, passages: Sequence[Source]) -> int:
    """Return how many tokens are left beside passages; negative if they do not fit."""
    fitted = inputs.fit_request()
    room = inputs.prompt_builder.room(fitted.request, inputs.rag.prompts, fitted.model)
    count = fitted.model.count
    return min(room, MAX_TOKENS) - sum(count(f"{each.prompt_line()}\n") for each in passages)


async def _search(inputs: AnswerInputs, query: str) -> Sequence[Source]:
    """Return the best passages of the documents, as many as a search returns."""
    request = inputs.fit_request().request
    overrides = request.overrides.model_copy(update={"top": MAX_TOP})
    found = await inputs.rag.search(request.metadata.user, query, overrides, inputs.span)
    own = (source for source in found.sources if source.sourcefile in request.documents)
    return list(own)[: request.overrides.top]
