"""Reads an upload, and writes its passages to the index."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import PurePath

from ingest.document import UnreadableDocument
from ingest.enrich import Enricher
from ingest.sandbox import SandboxLimits, SandboxReader, SandboxStartError
from ingest.secrets import describe_secret, describe_secret_name
from ingest.splitting.passages import SPLITTER_VERSION, Passage
from ingest.targets.index_writer import (
    Document,
    DocumentRejected,
    IndexUnavailable,
    IndexWriter,
    RequestRejected,
)
from ingest.uploads.replacement import list_replaced
from ingest.uploads.source import UploadSource
from shared.domain.errors import BadRequest, ChatError
from shared.uploads.base import CATEGORY, Upload
from shared.uploads.records import Result

log = logging.getLogger("uploads")

MAX_ATTEMPTS = 3
"""Attempts to read an upload: one that stops the process each time is not read any more."""
STOPPED = f"Reading it stopped {MAX_ATTEMPTS} times before it was complete."
TOO_MANY_PAGES = "It has {pages:,} pages; an upload may have {limit:,}."
PAGE_CHARACTERS = 3000  # of a page, at most: some files have no pages, or large ones
# What is raised for the fault of a service, or of the machine.
NOT_ITS_FAULT = (IndexUnavailable, RequestRejected, SandboxStartError, TimeoutError, ChatError)
READ_SECONDS = 180.0  # for a file: more than `make index` has, which others do not hold up


def make_reader(file_bytes: int, **limits: int) -> SandboxReader:
    """Make the reader of uploads of at most so many bytes, with other limits of the sandbox."""
    common = SandboxLimits(max_bytes=file_bytes, timeout=READ_SECONDS, timeout_hint="")
    return SandboxReader(common.model_copy(update=limits))


@dataclass(frozen=True, slots=True)
class UploadIndexer:
    """Reads uploads and indexes them, each for its owner alone."""

    source: UploadSource
    reader: SandboxReader
    writer: IndexWriter
    enricher: Enricher
    max_pages: int
    version: int = SPLITTER_VERSION
    seconds: float | None = None  # for an upload, with its vectors; None: no limit

    @property
    def fingerprint(self) -> str:
        """What tells that the passages of an upload would be others: its content never changes."""
        return f"{self.version} {self.enricher.fingerprint}"

    async def index(self, upload: Upload, is_found: bool = False) -> Result:
        """Read an upload and write its passages. Returns the result, which `complete` stores.

        `is_found` says that the index has passages of it: searches find them until they are
        replaced, and stay if they cannot be. Raises FileNotFoundError if it is removed;
        IndexUnavailable, RequestRejected, SandboxStartError, TimeoutError and ChatErrors, which are
        not the fault of the upload and count as no attempt.
        """
        before = await self.source.read_result(upload)
        attempts = before.attempts + 1
        if attempts > MAX_ATTEMPTS:
            return _fail(STOPPED, before, is_found)
        state = "ready" if is_found else "reading"
        during = before.model_copy(update={"state": state, "reason": "", "attempts": attempts})
        await self.source.write_result(upload, during)
        try:
            async with asyncio.timeout(self.seconds):
                await self._write_passages(upload)
        except (UnreadableDocument, BadRequest) as error:
            return _fail(str(error), during, is_found)
        except NOT_ITS_FAULT:
            with suppress(ChatError):  # the next attempt counts as one more
                await self.source.write_result(upload, before)
            raise
        except DocumentRejected as error:
            return _fail(str(error), during, is_found)
        return Result(state="ready")

    async def _write_passages(self, upload: Upload) -> None:
        """Read an upload and write its passages. Raises UnreadableDocument and others."""
        async with self.source.open_file(upload) as path:
            if reason := describe_secret_name(PurePath(upload.name)) or describe_secret(path):
                raise UnreadableDocument(reason)
            content = await self.reader.read_passages(path, upload.path)
            _check_pages(content, self.max_pages)
            own = tuple(replace(it, oids=(upload.owner,), category=CATEGORY) for it in content)
            passages, vectors = await self.enricher.enrich(own)
            document = Document(upload.path, self.fingerprint, passages, vectors)
            await self.writer.put(document, path)
        await self.writer.finish()

    async def complete(self, upload: Upload, result: Result) -> list[Upload]:
        """Store the result of an upload, then delete what it replaces. Returns what is deleted.

        So one of both is found at any moment. Raises FileNotFoundError if a folder is removed, and
        ChatErrors.
        """
        await self.source.write_result(upload, result)
        return await self.delete_replaced(upload)

    async def delete_replaced(self, upload: Upload) -> list[Upload]:
        """Delete what an upload has replaced, as a killed attempt has not. Returns what is deleted.

        Raises FileNotFoundError if a folder is removed, and ChatErrors.
        """
        replaced = list_replaced(await self.source.list_owner(upload) if upload.replaces else ())
        for each in replaced:
            await self.source.mark_deleted(each)
        return replaced


def _fail(reason: str, during: Result, is_found: bool) -> Result:
    """The result of an upload that cannot be read, or not any more: what is found stays."""
    if is_found:
        log.warning("uploads: one that is found cannot be read again: %s", reason)
        return during.model_copy(update={"state": "ready"})
    return Result(state="failed", reason=reason)


def _check_pages(passages: Sequence[Passage], limit: int) -> None:
    """Raise UnreadableDocument if a document has too many pages."""
    characters = sum(len(each.content) for each in passages)
    pages = max(len({each.sourcepage for each in passages}), ceil(characters / PAGE_CHARACTERS))
    if pages > limit:
        raise UnreadableDocument(TOO_MANY_PAGES.format(pages=pages, limit=limit))
