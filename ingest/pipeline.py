"""Brings an index up to date with a folder: reads, splits, enriches and writes changed files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ingest import acl
from ingest.concurrency import prefetch
from ingest.document import UNKNOWN_TYPE, UnreadableDocument
from ingest.enrich import Enricher
from ingest.sandbox import SandboxReader
from ingest.scan import Listing, SourceFile
from ingest.splitting.passages import SPLITTER_VERSION
from ingest.targets.index_writer import (
    Document,
    DocumentRejected,
    IndexUnavailable,
    IndexWriter,
)
from shared.domain.errors import BadRequest

PREFETCH_FILES = 3  # files that are read and embedded while another one is written

# A document to write with the path of its content, None where the index is up to date, or the
# reason for skipping the file.
FileResult = tuple[Document, Path] | str | None


class AccessRules(Protocol):
    """Who may see which document."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no rules: all documents are public."""
        ...

    def readers_of(self, name: str) -> acl.DocumentReaders:
        """Who may see the document of this name. Raises UnreadableDocument if nobody may."""
        ...

    def public_by_default(self, names: Iterable[str]) -> set[str]:
        """The documents that no rule matches, where the rules restrict no document."""
        ...


@dataclass(slots=True)
class IngestSummary:
    """The totals of a run, and each skipped file with the reason."""

    # Each document of the folder is counted once in these four.
    indexed: int = 0
    unchanged: int = 0
    unreadable: int = 0  # or rejected by a model or the index
    unsupported: int = 0  # no reader for the type

    passages: int = 0  # of the indexed documents
    removed: int = 0  # left the index, among them documents that are skipped now
    stale: int = 0  # in the index and not in the folder, and not removed
    left_out: int = 0  # hidden files and folders, links, secrets: no documents
    skipped: list[tuple[str, str]] = field(default_factory=list)  # with the reason
    is_unreadable: bool = False  # no file could be read, now or before: nothing was written
    # A file could not be removed: the index still has its passages, whose readers may be other
    # than now.
    is_outdated: bool = False

    @property
    def has_documents(self) -> bool:
        """Whether the run has put, found or removed documents."""
        return self.indexed + self.unchanged + self.removed > 0


@dataclass(frozen=True, slots=True)
class IngestPipeline:
    """Indexes a folder."""

    reader: SandboxReader
    writer: IndexWriter
    enricher: Enricher
    prune: bool = False  # removes files from the index that are no longer in the folder
    # Is called with the name of each processed file
    on_file: Callable[[str], None] = lambda _: None
    # Of reading and splitting: files are indexed again when it changes
    version: int = SPLITTER_VERSION

    async def run(self, listing: Listing[SourceFile], rules: AccessRules) -> IngestSummary:
        """Update the index. Raises IndexUnavailable, and ChatError where a model fails.

        An interrupted run can be repeated: files that are complete in the index are not read again.
        """
        indexed = await self.writer.fingerprints()
        files, summary = listing.files, IngestSummary(left_out=len(listing.skipped))
        summary.skipped += listing.skipped
        results = (self._process(file, rules, indexed.get(file.name)) for file in files)
        async with aclosing(prefetch(results, PREFETCH_FILES)) as prefetched:
            for file in files:
                result = await anext(prefetched)
                await self._apply(summary, file, result, file.name in indexed)
                file.release()
                self.on_file(file.name)
        await self._remove_skipped(summary, listing, indexed)
        names = {file.name for file in files} | {name for name, _ in listing.skipped}
        stale = (name for name in indexed if name not in names)
        if rules.is_empty:
            stale = (name for name in stale if not listing.may_contain(name))
        await self._remove_stale(summary, stale, rules)
        summary.is_unreadable = names.isdisjoint(indexed) and not summary.has_documents
        if not summary.is_unreadable:
            await self.writer.finish()
        return summary

    async def _process(
        self, file: SourceFile, rules: AccessRules, indexed: str | None
    ) -> FileResult:
        """Build one file's document without changing the index; errors become reasons."""
        try:
            return await self._build_document(file, rules, indexed)
        except UnreadableDocument as error:
            return str(error)
        except BadRequest as error:
            return f"A model does not take it: {error}"
        except OSError as error:
            return f"It cannot be opened: {error.strerror}."

    async def _build_document(
        self, file: SourceFile, rules: AccessRules, indexed: str | None
    ) -> tuple[Document, Path] | None:
        """Build a file's document; None where the index has the same fingerprint.

        Raises UnreadableDocument, ChatError, OSError.
        """
        access, max_bytes = rules.readers_of(file.name), self.reader.limits.max_bytes
        inputs = (str(self.version), self.enricher.fingerprint, *access.oids, "", *access.groups)
        fingerprint = await file.compute_fingerprint(max_bytes, *inputs)
        if fingerprint == indexed:
            return None
        path = await file.fetch()
        content = await self.reader.read_passages(path, file.name)
        passages, vectors = await self.enricher.enrich(
            tuple(replace(one, oids=access.oids, groups=access.groups) for one in content)
        )
        return Document(file.name, fingerprint, passages, vectors), path

    async def _apply(
        self, summary: IngestSummary, file: SourceFile, result: FileResult, is_indexed: bool
    ) -> None:
        if result is None:
            summary.unchanged += 1
            return
        if isinstance(result, str):
            summary.skipped.append((file.name, result))
        else:
            document, path = result
            if await _try_change(summary, file.name, self.writer.put(document, path)):
                summary.indexed += 1
                summary.passages += len(document.passages)
                return
        is_unsupported = result == UNKNOWN_TYPE
        summary.unsupported += is_unsupported
        summary.unreadable += not is_unsupported
        # The indexed passages may be outdated, or restricted to other people than now.
        if is_indexed:
            await self._remove(summary, file.name)

    async def _remove_skipped(
        self, summary: IngestSummary, listing: Listing[SourceFile], indexed: Collection[str]
    ) -> None:
        """Remove files that are now left out, such as those that have become links."""
        for name in [name for name, _ in listing.skipped if name in indexed]:
            await self._remove(summary, name)

    async def _remove_stale(
        self, summary: IngestSummary, names: Iterable[str], rules: AccessRules
    ) -> None:
        """Remove files that left the folder, with `prune` or where the folder has rules.

        With rules, a file may have been moved to where only some people may see it, or be in a
        folder that cannot be read, and have other readers than before.
        """
        for name in sorted(names):
            if not self.prune and rules.is_empty:
                summary.stale += 1
            else:
                await self._remove(summary, name)

    async def _remove(self, summary: IngestSummary, name: str) -> None:
        """Remove a file from the index, and count it, unless that is rejected."""
        is_removed = await _try_change(summary, name, self.writer.remove(name))
        summary.removed += is_removed
        summary.is_outdated |= not is_removed


async def _try_change(summary: IngestSummary, name: str, change: Awaitable[None]) -> bool:
    """Change a file in the index; returns False, with the file skipped, where it is rejected."""
    try:
        await change
    except IndexUnavailable:
        raise
    except DocumentRejected as error:
        summary.skipped.append((name, str(error)))
        return False
    return True
