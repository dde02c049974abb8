"""The files that messages of OpenAI's clients name: uploads of the caller, read before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from shared.domain.errors import BadRequest, NotFound
from shared.domain.messages import FileReference, Message
from shared.domain.request import ChatRequest
from shared.protocols.exchange import Exchange
from shared.protocols.upload_form import find_uploads
from shared.uploads.base import Upload

MAX_FILES = 10  # different ones, of a question
TOO_MANY = f"is one file too many: a question names {MAX_FILES} different ones at most"
UNKNOWN = "there is no file {id!r:.100} of yours"
NOT_READY = "the file {id!r:.100} is not processed yet: ask again when its status is processed"
NOT_READABLE = "the file {id!r:.100} could not be read: {reason}"
NOT_SEARCHED = "The files were left out: this model answers without documents."
LEFT_OUT = "Files of earlier messages were left out: they are no longer there, or too many."


async def resolve_files(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return the request with the documents that its messages name, the newest message's first.

    A file of a message before the last answer that cannot be used is left out, with a note. Raises
    BadRequest for others, Forbidden for a caller who owns no files, and what the store raises.
    """
    if not any(message.files for message in request.messages):
        return request
    if request.grounding == "none":
        return replace(request, notes=(*request.notes, NOT_SEARCHED))
    references, earlier = _split(request.messages)
    uploads = await _get_uploads(exchange, (*references, *earlier))
    named = {_find(uploads, each).sourcefile: each for each in references}
    if len(named) > MAX_FILES:
        raise BadRequest(TOO_MANY, field=list(named.values())[MAX_FILES].field)
    found = [uploads[each.id] for each in earlier if each.id in uploads]
    before = (each.sourcefile for each in found if each.state == "ready")
    documents = tuple(dict.fromkeys((*named, *before)))
    wanted = {each.id for each in (*references, *earlier)}
    notes = request.notes
    if len(wanted) > len(documents[:MAX_FILES]):
        notes = (*notes, LEFT_OUT)
    return replace(
        request,
        messages=tuple(_without_empty(request.messages)),
        documents=documents[:MAX_FILES],
        notes=notes,
    )


def _split(
    messages: Sequence[Message],
) -> tuple[tuple[FileReference, ...], tuple[FileReference, ...]]:
    """Return the files named after the last answer, then the others, the newest first."""
    answers = (index for index, each in enumerate(messages) if each.role == "assistant")
    last = max(answers, default=-1)
    newest = tuple(file for message in messages[last + 1 :] for file in message.files)
    earlier = tuple(file for message in reversed(messages[: last + 1]) for file in message.files)
    return newest, earlier


async def _get_uploads(
    exchange: Exchange, references: Sequence[FileReference]
) -> Mapping[str, Upload]:
    """Return the caller's uploads of these ids, by id. Raises BadRequest without a store."""
    try:
        store, owner = find_uploads(exchange)
    except NotFound as failure:
        raise BadRequest(failure.message, field=references[0].field) from None
    return await exchange.wait_for(store.get(owner, [each.id for each in references]))


def _find(uploads: Mapping[str, Upload], reference: FileReference) -> Upload:
    """Return the upload that is named. Raises BadRequest."""
    id, field = reference.id, reference.field
    upload = uploads.get(id)
    if upload is None:
        raise BadRequest(UNKNOWN.format(id=id), field=field)
    if upload.state == "failed":
        raise BadRequest(NOT_READABLE.format(id=id, reason=upload.reason), field=field)
    if upload.state != "ready":
        raise BadRequest(NOT_READY.format(id=id), field=field)
    return upload


def _without_empty(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages, but for those that have a file and nothing else: models refuse some."""
    for message in messages:
        if message.content.strip() or message.images or not message.files:
            yield message
