"""How do the documents of a folder get into an index? Read, described, embedded, put: each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from shared.chat.errors import BadRequest
from shared.ingest.concurrency import ahead
from shared.ingest.document import UnreadableDocument, too_large
from shared.ingest.enrich import Enrich
from shared.ingest.sandbox.process import FilePassages
from shared.ingest.sources import acl
from shared.ingest.sources.scan import Listing, SourceFile, fingerprint
from shared.ingest.splitting.passages import VERSION
from shared.ingest.targets.index_writer import (
    Document,
    DocumentRejected,
    IndexUnavailable,
    IndexWriter,
)

AHEAD = 3  # files that are read and embedded while another one is put

# A document to put, nothing where the index has it, or the reason why there is none.
Result = Document | str | None


class PassageReader(Protocol):
    """Reads a file of at most `largest` bytes, and splits it."""

    @property
    def largest(self) -> int:
        """The most bytes of a file."""
        ...

    async def passages(self, path: Path, name: str) -> FilePassages:
        """The passages of the file at `path`. Raises Unreadable."""
        ...


@dataclass(slots=True)
class Summary:
    """What a run did: numbers of files and passages, and each file that gave none, with why."""

    put: int = 0
    unchanged: int = 0
    removed: int = 0
    gone: int = 0
    passages: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Run:
    """One run over a folder. `prune`: what is no longer in the folder is removed from the index.

    `step` is called after each file, with its name. `version` is that of reading and splitting.
    """

    reader: PassageReader
    target: IndexWriter
    enrich: Enrich
    prune: bool = False
    step: Callable[[str], None] = lambda _: None
    version: int = VERSION

    async def over(self, found: Listing, rules: acl.Acl) -> Summary:
        """Bring the index up to a folder. Raises Unusable, and ChatError where a model fails.

        A run that breaks off can be repeated: what is whole in the index is not read again.
        """
        known = await self.target.known()
        files, summary = found.files, Summary(skipped=list(found.skipped))
        works = (self._work(file, rules, known.get(file.name)) for file in files)
        async with aclosing(ahead(works, AHEAD)) as done:
            async for file, result in done:
                await self._take(summary, file, result, file.name in known)
                self.step(file.name)
        there = {file.name for file in files}
        gone = (name for name in known if name not in there and not found.hides(name))
        await self._tidy(summary, gone, rules)
        await self.target.finish()
        return summary

    async def _work(
        self, file: SourceFile, rules: acl.Acl, known: str | None
    ) -> tuple[SourceFile, Result]:
        """What becomes of one file, before the index is touched."""
        try:
            return file, await self._made(file, rules, known)
        except UnreadableDocument as error:
            return file, str(error)
        except BadRequest as error:
            return file, f"A model does not take it: {error}"
        except OSError as error:
            return file, f"It cannot be opened: {error.strerror}."

    async def _made(self, file: SourceFile, rules: acl.Acl, known: str | None) -> Document | None:
        """A file's document; None where the index has it. Raises Unreadable, ChatError, OSError."""
        who = rules.of(file.name)
        if file.path.stat().st_size > self.reader.largest:  # not even its fingerprint is taken
            raise UnreadableDocument(too_large(self.reader.largest))
        made_of = (str(self.version), self.enrich.made_with, *who.oids, "", *who.groups)
        mark = await asyncio.to_thread(fingerprint, file, *made_of)
        if mark == known:
            return None
        read = await self.reader.passages(file.path, file.name)
        own = (replace(each, oids=who.oids, groups=who.groups) for each in read.passages)
        passages, vectors = await self.enrich.passages(tuple(own))
        return Document(file.name, mark, passages, vectors)

    async def _take(self, summary: Summary, file: SourceFile, result: Result, known: bool) -> None:
        if result is None:
            summary.unchanged += 1
            return
        reason = await self._put(summary, file, result) if isinstance(result, Document) else result
        if reason is None:
            return
        summary.skipped.append((file.name, reason))
        # What it said before is not what the file says now, or not for the same people.
        if known and (reason := await self._removed(file.name)):
            summary.skipped.append((file.name, reason))

    async def _put(self, summary: Summary, file: SourceFile, document: Document) -> str | None:
        """Put a file; the reason why it was not."""
        try:
            await self.target.put(document, file.path)
        except IndexUnavailable:
            raise
        except DocumentRejected as refused:
            return str(refused)
        summary.put += 1
        summary.passages += len(document.passages)
        return None

    async def _removed(self, name: str) -> str | None:
        """Remove a file; the reason why it was not."""
        try:
            await self.target.remove(name)
        except IndexUnavailable:
            raise
        except DocumentRejected as refused:
            return str(refused)
        return None

    async def _tidy(self, summary: Summary, gone: Iterable[str], rules: acl.Acl) -> None:
        """Remove what is gone, where that is asked for, and in any case where there are rules.

        It may have gone to where only some may see it.
        """
        for name in sorted(gone):
            if not self.prune and not rules.rules:
                summary.gone += 1
            elif reason := await self._removed(name):
                summary.skipped.append((name, reason))
            else:
                summary.removed += 1
