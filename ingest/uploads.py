"""Reads what users have uploaded, and removes what they have deleted.

The app starts it: `python -m ingest.uploads FOLDER`. It ends when nothing is left to do, and
continues what a killed run has left: the folder of uploads says what there is, and the index of
uploads follows it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path, PurePath

from ingest.cli import run_command
from ingest.document import UnreadableDocument
from ingest.enrich import Enricher
from ingest.sandbox import SandboxLimits, SandboxReader, SandboxStartError
from ingest.secrets import describe_secret, describe_secret_name
from ingest.setup import IngestOptions, open_setup
from ingest.splitting.passages import SPLITTER_VERSION, Passage
from ingest.targets.index_writer import Document, DocumentRejected, IndexUnavailable, IndexWriter
from shared.domain.errors import BadRequest, ChatError
from shared.retrieval.sqlite.schema import is_index_file
from shared.settings import MIB, Settings
from shared.uploads.base import CATEGORY, Upload
from shared.uploads.folder.records import (
    INDEX,
    UploadFolder,
    list_drafts,
    list_folders,
    list_owner,
    list_owners,
    remove_other_days,
)
from shared.uploads.records import Result, utc_day

log = logging.getLogger("uploads")

MAX_ATTEMPTS = 3
"""Attempts to read an upload: one that stops the process each time is not read any more."""
STOPPED = f"Reading it stopped {MAX_ATTEMPTS} times before it was complete."
TOO_MANY_PAGES = "It has {pages:,} pages; an upload may have {limit:,}."
PAGE_CHARACTERS = 3000  # of a page, at most: some files have no pages, or large ones
DRAFT_SECONDS = 600.0  # after which an incomplete upload has no request any more
UNQUEUED_SECONDS = 120.0  # after which a stored upload is read: the app was killed meanwhile
POLL_SECONDS = 0.5
LOWEST_PRIORITY = 19
READ_SECONDS = 180.0  # for a file: more than `make index` has, which others do not hold up


@dataclass(frozen=True, slots=True)
class UploadIndexer:
    """Brings the index of uploads up to date with their folder."""

    root: Path
    reader: SandboxReader
    writer: IndexWriter
    enricher: Enricher
    max_pages: int
    version: int = SPLITTER_VERSION
    now: Callable[[], float] = time.time  # in seconds since 1970
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep  # gets seconds
    _indexed: dict[str, str] = field(default_factory=dict)  # fingerprints by name

    async def run(self) -> None:
        """Read and remove until nothing is left to do. Raises IndexUnavailable, ChatErrors."""
        self._indexed.update(await self.writer.fingerprints())
        self._remove_drafts()
        self._remove_other_days()
        while await self._remove_deleted() or await self._read_next() or await self._wait():
            pass

    def _remove_drafts(self) -> None:
        """Remove incomplete uploads whose request has ended."""
        for path in chain.from_iterable(map(list_drafts, list_owners(self.root))):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - DRAFT_SECONDS:
                    UploadFolder(path).remove()

    def _remove_other_days(self) -> None:
        """Remove the numbers of uploads of other days."""
        for owner in list_owners(self.root):
            with suppress(OSError):
                remove_other_days(owner, utc_day(self.now()))

    async def _remove_deleted(self) -> bool:
        """Remove from the index, then from the disk, what is deleted. Returns whether any was."""
        folders = list(list_folders(self.root))
        deleted = [folder for folder in folders if folder.is_deleted]
        kept = {folder.id for folder in folders} - {folder.id for folder in deleted}
        names = [name for name in self._indexed if name.partition("/")[0] not in kept]
        for name in names:
            await self.writer.remove(name)
            del self._indexed[name]
        if names:
            await self.writer.finish()
        return any([_remove(folder) for folder in deleted])

    async def _read_next(self) -> bool:
        """Read the oldest upload that the index does not have. Returns whether there was one."""
        waiting: list[tuple[Upload, UploadFolder]] = []
        for folder in list_folders(self.root):
            upload = folder.read()
            if upload and self._must_read(upload) and not self._is_unqueued(folder):
                waiting.append((upload, folder))
        if not waiting:
            return False
        upload, folder = min(waiting, key=lambda pair: pair[0].order)
        with suppress(FileNotFoundError):  # removed by hand
            result = await self._read(upload, folder)
            _delete_replaced(upload, folder, result)
            folder.write_result(result)
        return True

    async def _wait(self) -> bool:
        """Wait a moment if any upload is to be queued. Returns whether there was one."""
        folders = list_folders(self.root)
        if not any(self._is_unqueued(folder) and not folder.is_deleted for folder in folders):
            return False
        await self.sleep(POLL_SECONDS)
        return True

    def _is_unqueued(self, folder: UploadFolder) -> bool:
        """Whether the app stores an upload, and may still delete it: its form is incomplete."""
        since = folder.unqueued_since()
        # A clock that is set back must not make it wait for ever.
        return since is not None and abs(time.time() - since) < UNQUEUED_SECONDS

    def _must_read(self, upload: Upload) -> bool:
        up_to_date = self._indexed.get(upload.path) == self._fingerprint
        return upload.state != "failed" and not (upload.state == "ready" and up_to_date)

    @property
    def _fingerprint(self) -> str:
        """What tells that the passages of an upload would be others: its content never changes."""
        return f"{self.version} {self.enricher.fingerprint}"

    async def _read(self, upload: Upload, folder: UploadFolder) -> Result:
        """Read an upload and index its passages, for its owner alone."""
        result = folder.read_result()
        attempts = 1 if result.state == "ready" else result.attempts + 1
        if attempts > MAX_ATTEMPTS:
            return Result(state="failed", reason=STOPPED)
        folder.write_result(Result(state="reading", attempts=attempts))
        path = folder.content(upload.name)
        if reason := describe_secret_name(PurePath(upload.name)) or describe_secret(path):
            return Result(state="failed", reason=reason)
        try:
            content = await self.reader.read_passages(path, upload.path)
            _check_pages(content, self.max_pages)
            own = tuple(replace(it, oids=(upload.owner,), category=CATEGORY) for it in content)
            passages, vectors = await self.enricher.enrich(own)
            document = Document(upload.path, self._fingerprint, passages, vectors)
            await self.writer.put(document, folder.path)
        except (UnreadableDocument, BadRequest) as error:
            return Result(state="failed", reason=str(error))
        except (IndexUnavailable, SandboxStartError, ChatError):  # not the fault of this upload
            folder.write_result(result)
            raise
        except DocumentRejected as error:
            return Result(state="failed", reason=str(error))
        self._indexed[upload.path] = self._fingerprint
        await self.writer.finish()
        return Result(state="ready")


def _check_pages(passages: Sequence[Passage], limit: int) -> None:
    """Raise UnreadableDocument if a document has too many pages."""
    characters = sum(len(each.content) for each in passages)
    pages = max(len({each.sourcepage for each in passages}), ceil(characters / PAGE_CHARACTERS))
    if pages > limit:
        raise UnreadableDocument(TOO_MANY_PAGES.format(pages=pages, limit=limit))


def _remove(folder: UploadFolder) -> bool:
    """Remove a folder. Returns whether it is gone; the next run tries again."""
    try:
        folder.remove()
    except OSError as error:
        log.error("uploads: %s cannot be removed: %s", folder.id, error.strerror)
        return False
    return True


def _delete_replaced(upload: Upload, folder: UploadFolder, result: Result) -> None:
    """Mark the earlier uploads of the same name as deleted, if this one replaces them.

    One that has failed replaces only those that have failed.
    """
    for other in list_owner(folder.path.parent) if upload.replaces else ():
        earlier = other.read()
        if earlier is None or earlier.name != upload.name or earlier.order >= upload.order:
            continue
        if result.state == "ready" or earlier.state == "failed":
            other.mark_deleted()


async def run(root: Path, settings: Settings) -> tuple[str, ...]:
    """Read and remove until nothing is left to do. Returns nothing to print.

    Raises HANDLED_ERRORS of the command line.
    """
    index = root / INDEX
    if index.exists() and not is_index_file(index):
        index.unlink()  # damaged: it is made again of the files
    settings = settings.model_copy(update={"index_file": str(index)})
    limits = SandboxLimits(max_bytes=settings.max_upload_megabytes * MIB, timeout=READ_SECONDS)
    async with (
        open_setup(settings, IngestOptions(folder=None), restricted=True) as setup,
        SandboxReader(limits) as reader,
    ):
        await UploadIndexer(
            root, reader, setup.writer, setup.enricher, settings.max_upload_pages
        ).run()
    return ()


def main(root: Path) -> int:
    """Run the command. Returns 0, or 1 on an error."""
    if hasattr(os, "nice"):
        os.nice(LOWEST_PRIORITY)
    return run_command(partial(run, root))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
