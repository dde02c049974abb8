"""The uploads of a deployment, and the forms that bring them, for each protocol that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from multipart import MultipartSegment

from shared.domain.errors import BadRequest, ChatError, Forbidden, NotFound, RequestTimeout
from shared.http.form_stream import read_form
from shared.protocols.exchange import Exchange
from shared.uploads.base import Draft, Upload, Uploads, clean_name

T = TypeVar("T")

FILE_PART = "file"
MAX_FIELD_BYTES = 1000  # of a field that is no file; the rest is read past
POLL_SECONDS, MAX_POLL_SECONDS = 0.2, 1.0  # a poll may be a request to a storage account
SPARE_SECONDS = 1.0  # before the deadline, for the answer
NO_FILE = "is required, the part of the form that holds a file"
NO_UPLOADS = "This deployment takes no uploads (UPLOADS)."
NO_OWNER = "Sign in: an upload belongs to the user who sends it, and a key names nobody."


@dataclass(frozen=True, slots=True)
class UploadsConfig:
    """Where the deployment keeps uploads."""

    uploads: Uploads | None = None
    wait_seconds: float = 20  # for the passages of an upload, before POST /upload answers
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def lock(self, owner: str) -> asyncio.Lock:
        """The lock of an owner: held while the files of a message are compared with the owner's
        uploads, and stored.
        """
        return self._locks.setdefault(owner, asyncio.Lock())


def find_uploads(exchange: Exchange) -> tuple[Uploads, str]:
    """Return the store, and the id of the caller who owns uploads. Raises NotFound, Forbidden."""
    uploads = exchange.app.config(UploadsConfig).uploads
    if uploads is None:
        raise NotFound(NO_UPLOADS)
    owner = exchange.app.access.find_owner(exchange.call.headers)
    if owner is None:
        raise Forbidden(NO_OWNER)
    return uploads, owner


def wait_end(exchange: Exchange) -> float:
    """Return the time until which a request waits for its uploads, by the loop's clock."""
    seconds = exchange.app.config(UploadsConfig).wait_seconds
    now = asyncio.get_running_loop().time()
    return min(now + seconds, exchange.deadline - SPARE_SECONDS)


async def wait_until_read(
    uploads: Uploads, owner: str, ids: Sequence[str], end: float
) -> list[Upload]:
    """Return the uploads when all are read, or as they are at `end`, by the loop's clock.

    Raises ChatErrors.
    """
    seconds = POLL_SECONDS
    while True:
        found = (await uploads.get(owner, ids)).values()
        now = asyncio.get_running_loop().time()
        if now >= end or all(each.is_finished for each in found):
            return list(found)
        await asyncio.sleep(min(seconds, end - now))
        seconds = min(seconds * 1.5, MAX_POLL_SECONDS)


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Wait for the result of some work, which a cancellation of the caller does not cut."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    finally:
        await asyncio.wait({task})


async def commit_drafts(
    uploads: Uploads, owner: str, drafts: Iterable[Draft], replace: bool = False
) -> list[Upload]:
    """Store drafts of an owner and queue them to be read: all, or none if one fails.

    None is read before all are stored, so that none has replaced another then. Raises ChatErrors.
    """
    stored: list[Upload] = []
    try:
        for draft in drafts:
            stored.append(await draft.commit(replace))
        await uploads.enqueue(stored)
    except ChatError:
        for upload in stored:
            with suppress(ChatError):  # the first error is raised, after the others are deleted
                await uploads.delete(owner, upload.id)
        raise
    return stored


def accept_fields(_fields: Mapping[str, str]) -> None:
    """Accept any fields of a form."""


@dataclass
class UploadForm:
    """A form with files of an owner, which are stored all or not at all."""

    uploads: Uploads
    owner: str
    check: Callable[[Mapping[str, str]], None] = accept_fields  # gets the fields; raises ChatErrors
    replace: bool = False  # earlier uploads of the same names
    max_files: int | None = None
    _drafts: list[Draft] = field(default_factory=list)

    async def store(self, exchange: Exchange) -> list[Upload]:
        """Read the form of a request, and store its files.

        Raises ChatErrors; RequestTimeout at the deadline.
        """
        try:
            # Not `wait_for`: asking a server whether the client is there takes pieces of the body.
            async with asyncio.timeout_at(exchange.deadline) as limit:
                return await self._store(exchange)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestTimeout from None

    async def _store(self, exchange: Exchange) -> list[Upload]:
        try:
            self.check(await self._read(exchange))
            if not self._drafts:
                raise BadRequest(NO_FILE, field=FILE_PART)
            commit = commit_drafts(self.uploads, self.owner, self._drafts, self.replace)
            return await run_to_end(commit)
        finally:
            for draft in self._drafts:
                await draft.discard()

    async def _read(self, exchange: Exchange) -> Mapping[str, str]:
        """Write the files to drafts. Returns the other fields."""
        fields: dict[str, bytes] = {}
        name, draft = "", None
        async for event in read_form(exchange.call, exchange.app.limits.body_seconds):
            if isinstance(event, MultipartSegment):
                name, draft = str(event.name), await self._begin(event)
            elif event and draft:
                await draft.write(bytes(event))
            elif event:
                fields[name] = (fields.get(name, b"") + bytes(event))[:MAX_FIELD_BYTES]
        return {name: value.decode(errors="replace") for name, value in fields.items()}

    async def _begin(self, part: MultipartSegment) -> Draft | None:
        """Begin the upload of a file; None for another part."""
        if part.name != FILE_PART or part.filename is None:
            return None
        if len(self._drafts) == self.max_files:
            raise BadRequest(f"send {self.max_files} in a form", field=FILE_PART)
        name = clean_name(part.filename)

        async def begin() -> Draft:
            self._drafts.append(await self.uploads.begin(self.owner, name))
            return self._drafts[-1]

        return await run_to_end(begin())
