"""Gives a model documents whole, in place of the passages that a search found in them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from shared.domain.concurrency import run_in_thread_if
from shared.domain.errors import ChatError
from shared.domain.events import Source
from shared.models.base import Model
from shared.rag.inputs import AnswerInputs, is_large
from shared.rag.prompt import count_message_tokens, count_source_tokens
from shared.retrieval.base import FilePart, SearchResult

MAX_DOCUMENTS = 10  # that a model gets whole
MAX_TOKENS = 20_000  # of the passages of all of them
MAX_CHARACTERS = 8 * MAX_TOKENS  # of one that can be whole: of a longer one no tokens are counted
HISTORY_SHARE = 4  # one token in four of the room for passages is the history's, if it needs it
UNREADABLE = (
    "use_whole_documents was left out for some documents: the index did not return their text."
)

log = logging.getLogger("chat")


async def use_whole_documents(inputs: AnswerInputs, results: SearchResult) -> SearchResult:
    """Put whole documents in place of the passages found in them, if the request asks for it.

    The best come first. One that does not fit beside the passages of all others keeps its own, and
    so do those that cannot be read, which a note says. Raises TooLong.
    """
    fitted = inputs.fit_request()
    overrides = fitted.request.overrides
    # A document may have passages that a filter leaves out.
    if not overrides.use_whole_documents or overrides.filter is not None or not results.sources:
        return results
    count = partial(_count_by_document, results.sources, fitted.model)
    found = await run_in_thread_if(is_large(fitted.request, results.sources), count)
    spare, left = await measure_room(inputs) - found.total(), MAX_TOKENS
    whole, notes = dict[str, Sequence[Source]](), results.notes
    for name in islice(found, MAX_DOCUMENTS):
        try:
            passages = await read_document(inputs, name)
        except ChatError as error:
            log.warning("documents: not read: %s", error.cause or error.message)
            notes = (*notes, UNREADABLE)
            break
        tokens = await count_document(inputs, passages)
        if tokens and tokens <= left and tokens - found[name] <= spare:
            spare, left = spare - (tokens - found[name]), left - tokens
            whole[name] = passages
    sources = tuple(_insert(results.sources, whole))
    ids = {source.id for source in sources}
    excluded = tuple(each for each in results.excluded if each.source.id not in ids)
    return replace(results, sources=sources, excluded=excluded, notes=notes)


def _count_by_document(sources: Iterable[Source], model: Model) -> Counter[str]:
    """Count the tokens of sources by their documents, which stay in the order of the sources."""
    counter = Counter[str]()
    for source in sources:
        counter[source.sourcefile] += count_source_tokens(source, model)
    return counter


def _insert(sources: Sequence[Source], whole: Mapping[str, Sequence[Source]]) -> Iterator[Source]:
    """Yield sources, in place of the first of a document all that it has."""
    # Those found have a score, and maybe an image. A caption would stand in place of the text.
    found = {source.id: replace(source, captions=()) for source in sources}
    inserted = set[str]()
    for source in sources:
        name = source.sourcefile
        if name not in whole:
            yield source
        elif name not in inserted:
            inserted.add(name)
            yield from (found.get(each.id, each) for each in whole[name])


async def measure_room(inputs: AnswerInputs) -> int:
    """Return the tokens left for passages beside the history. Raises TooLong."""
    large = is_large(inputs.fit_request().request)
    return await run_in_thread_if(large, partial(_measure_room, inputs))


def _measure_room(inputs: AnswerInputs) -> int:
    fitted = inputs.fit_request()
    room = inputs.prompt_builder.room(fitted.request, inputs.rag.prompts, fitted.model)
    history = count_message_tokens(fitted.request.history, fitted.model.count)
    return room - min(history, room // HISTORY_SHARE)


async def read_document(inputs: AnswerInputs, name: str) -> Sequence[Source]:
    """Return the passages of a document that the user may see, enough of one too long to be whole.

    Raises ChatErrors.
    """
    request, part = inputs.fit_request().request, FilePart(characters=MAX_CHARACTERS)
    user, overrides = request.metadata.user, request.overrides
    return await inputs.rag.retriever.list_passages(user, name, overrides, part)


async def count_document(inputs: AnswerInputs, passages: Sequence[Source]) -> int | None:
    """Count the tokens of a document; None if it is too long to be whole."""
    if sum(len(each.content) for each in passages) >= MAX_CHARACTERS:
        return None
    fitted = inputs.fit_request()
    counts = map(partial(count_source_tokens, model=fitted.model), passages)
    return await run_in_thread_if(is_large(fitted.request, passages), partial(sum, counts))
