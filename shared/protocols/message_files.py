"""The files that the messages of a request name or contain: they are uploads of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from shared.domain.errors import BadRequest, Forbidden, NotFound
from shared.domain.messages import FileReference, Message
from shared.domain.request import ChatRequest
from shared.protocols.exchange import Exchange
from shared.protocols.inline_files import store_files
from shared.protocols.upload_form import find_uploads
from shared.rag.whole_documents import MAX_DOCUMENTS
from shared.uploads.base import Upload, Uploads

MAX_FILES = MAX_DOCUMENTS  # different ones, of a question
TOO_MANY = f"is one file too many: a question names {MAX_FILES} different ones at most"
UNKNOWN = "there is no file {id!r:.100} of yours"
NOT_READY = "the file {id!r:.100} is not processed yet: ask again when its status is processed"
NOT_READABLE = "the file {name!r:.100} could not be read: {reason}"
NOT_SEARCHED = "The files were left out: this model answers without documents."
LEFT_OUT = "Files of earlier messages were left out: they are no longer there, or too many."


async def resolve_files(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return the request with the documents that its messages have, the newest message's first.

    A file of a message before the last answer that cannot be used is left out, with a note. Raises
    BadRequest for others, Forbidden for a caller who owns no files, and what the store raises.
    """
    if not any(message.files for message in request.messages):
        return request
    if request.grounding == "none":
        return replace(request, notes=(*request.notes, NOT_SEARCHED))
    messages = await exchange.wait_for(store_contents(exchange, request, request.messages))
    references, earlier = _split(messages)
    uploads = await _get_uploads(exchange, (*references, *earlier))
    named = [_find(uploads, each).sourcefile for each in references]
    found = [uploads[each.id] for each in earlier if each.id in uploads]
    before = (each.sourcefile for each in found if each.state == "ready")
    documents = tuple(dict.fromkeys((*named, *before)))
    wanted = {each.id for each in (*references, *earlier)}
    notes = request.notes
    if len(wanted) > len(documents[:MAX_FILES]):
        notes = (*notes, LEFT_OUT)
    return replace(
        request,
        messages=tuple(_without_empty(messages)),
        documents=documents[:MAX_FILES],
        notes=notes,
    )


async def store_contents(
    exchange: Exchange, request: ChatRequest, messages: tuple[Message, ...]
) -> tuple[Message, ...]:
    """Return messages of a request with an id for each file that they contain. Raises ChatErrors.

    The id is empty for a file of a message before the last answer that the caller has deleted.
    """
    if request.grounding == "none":
        return messages
    newest, earlier = _split(messages)
    different = dict.fromkeys(replace(each, field="") for each in newest)
    if len(different) > MAX_FILES:
        raise BadRequest(TOO_MANY, field=newest[MAX_FILES].field)
    contained = [each for each in (*newest, *earlier) if each.data]
    if not contained:
        return messages
    uploads, owner = _require_uploads(exchange, contained[0])
    split = ([each for each in part if each.data] for part in (newest, earlier))
    ids = await store_files(exchange, uploads, owner, *split)
    return tuple(
        replace(message, files=tuple(_with_id(file, ids) for file in message.files))
        for message in messages
    )


def _with_id(file: FileReference, ids: Mapping[FileReference, str]) -> FileReference:
    return replace(file, id=ids.get(file, ""), data="") if file.data else file


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
    store, owner = _require_uploads(exchange, references[0])
    return await exchange.wait_for(store.get(owner, [each.id for each in references]))


def _require_uploads(exchange: Exchange, file: FileReference) -> tuple[Uploads, str]:
    """Return the store, and the id of the caller who owns uploads. Raises BadRequest, Forbidden."""
    try:
        return find_uploads(exchange)
    except NotFound as failure:
        raise BadRequest(failure.message, field=file.field) from None
    except Forbidden as failure:
        raise Forbidden(failure.message, field=file.field) from None


def _find(uploads: Mapping[str, Upload], reference: FileReference) -> Upload:
    """Return the upload that is named. Raises BadRequest."""
    id, field = reference.id, reference.field
    upload = uploads.get(id)
    if upload is None:
        raise BadRequest(UNKNOWN.format(id=id), field=field)
    if upload.state == "failed":
        name = reference.name or id
        raise BadRequest(NOT_READABLE.format(name=name, reason=upload.reason), field=field)
    if upload.state != "ready":
        raise BadRequest(NOT_READY.format(id=id), field=field)
    return upload


def _without_empty(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages, but for those that have a file and nothing else: models refuse some."""
    for message in messages:
        if message.content.strip() or message.images or not message.files:
            yield message
