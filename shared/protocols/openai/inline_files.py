"""The files that messages contain: they become uploads of the caller, and are read before."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from shared.domain.errors import BadRequest, Unavailable
from shared.domain.messages import FileReference
from shared.protocols.exchange import Exchange
from shared.protocols.upload_form import find_uploads, wait_end, wait_until_read
from shared.uploads.base import Upload, Uploads, clean_name

NOT_BASE64 = "must be the content of a file in base64, or a data URL of it"
STILL_READ = "A file of the message is still being read. Send the request again in a moment."
RETRY_SECONDS = 5.0


async def store_files(
    exchange: Exchange, newest: Sequence[FileReference], earlier: Sequence[FileReference]
) -> Mapping[FileReference, str]:
    """Return the ids of uploads that have the content and the name of these files.

    Those of the newest messages are stored where the caller has none, and are read; those of
    earlier messages have no id then: the caller has deleted them. Raises Unavailable where reading
    takes long, and what the store raises.
    """
    uploads, owner = find_uploads(exchange)
    contents = await asyncio.to_thread(_read_all, (*newest, *earlier))
    stored = {(each.digest, each.name): each.id for each in await uploads.list(owner)}
    ids: dict[FileReference, str] = {}
    for file, (digest, name, content) in contents.items():
        key = (digest, name)
        if key not in stored and file in newest:
            stored[key] = (await _store(uploads, owner, name, content)).id
        if key in stored:
            ids[file] = stored[key]
    needed = [ids[file] for file in newest]
    for upload in await wait_until_read(uploads, owner, needed, wait_end(exchange)):
        if upload.state not in ("ready", "failed"):
            raise Unavailable(STILL_READ, retry_after=RETRY_SECONDS)
    return ids


def _read_all(files: Iterable[FileReference]) -> Mapping[FileReference, tuple[str, str, bytes]]:
    """Return the digest, the name and the content of each file. Raises BadRequest."""
    return {file: _read(file) for file in files}


def _read(file: FileReference) -> tuple[str, str, bytes]:
    try:
        content = base64.b64decode(file.data, validate=True)
        return sha256(content).hexdigest(), clean_name(file.name), content
    except (binascii.Error, ValueError):
        raise BadRequest(NOT_BASE64, field=file.field) from None
    except BadRequest as error:
        raise BadRequest(error.message, field=file.field) from None


async def _store(uploads: Uploads, owner: str, name: str, content: bytes) -> Upload:
    draft = await uploads.begin(owner, name)
    try:
        await draft.write(content)
        return await draft.commit()
    finally:
        await draft.discard()
