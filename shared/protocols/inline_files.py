"""The files that messages contain: they become uploads of the caller, and are read before."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

from shared.domain.errors import BadRequest, NotFound, Unavailable
from shared.domain.messages import FileReference
from shared.protocols.exchange import Exchange
from shared.protocols.upload_form import (
    UploadsConfig,
    commit_drafts,
    run_to_end,
    wait_end,
    wait_until_read,
)
from shared.uploads.base import Upload, Uploads, clean_name

NOT_BASE64 = "must have the content of a file in base64"
STILL_READ = "A file of the message is still being read. Send the request again in a moment."
RETRY_SECONDS = 5.0


async def store_files(
    exchange: Exchange,
    uploads: Uploads,
    owner: str,
    newest: Sequence[FileReference],
    earlier: Sequence[FileReference],
) -> Mapping[FileReference, str]:
    """Return the ids of uploads that have the content and the name of these files.

    Those of the newest messages are stored where the owner has none, or one that could not be
    read, and are read; those of earlier messages have no id then: the owner has deleted them.
    Raises Unavailable where reading takes long, and what the store raises.
    """
    contents = await asyncio.to_thread(_read_all, (*newest, *earlier))
    ids: dict[FileReference, str] = {}
    async with exchange.app.config(UploadsConfig).lock(owner):
        stored = {(each.digest, each.name): each for each in await uploads.list(owner)}
        for file, (digest, name, content) in contents.items():
            upload = stored.get((digest, name))
            if file in newest and (upload is None or upload.state == "failed"):
                upload = await run_to_end(_store(uploads, owner, name, content, upload))
                stored[digest, name] = upload
            if upload is not None:
                ids[file] = upload.id
    needed = [ids[file] for file in newest]
    found = await wait_until_read(uploads, owner, needed, wait_end(exchange))
    if not all(each.is_finished for each in found):
        raise Unavailable(STILL_READ, retry_after=RETRY_SECONDS)
    return ids


def _read_all(files: Iterable[FileReference]) -> Mapping[FileReference, tuple[str, str, bytes]]:
    """Return the digest, the name and the content of each file. Raises BadRequest."""
    return {file: _read(file) for file in files}


def _read(file: FileReference) -> tuple[str, str, bytes]:
    try:
        content = base64.b64decode("".join(file.data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(NOT_BASE64, field=file.field) from None
    try:
        return sha256(content).hexdigest(), clean_name(file.name), content
    except BadRequest as error:
        part = file.field.rpartition(".")[0]
        raise BadRequest(error.message, field=f"{part}.filename") from None


async def _store(
    uploads: Uploads, owner: str, name: str, content: bytes, failed: Upload | None
) -> Upload:
    """Store a file, in place of one that has failed."""
    if failed is not None:
        with suppress(NotFound):  # the user deletes it at the same time
            await uploads.delete(owner, failed.id)
    draft = await uploads.begin(owner, name)
    try:
        await draft.write(content)
        (upload,) = await commit_drafts(uploads, owner, [draft])
        return upload
    finally:
        await draft.discard()
