"""How do the documents of a folder get into an index? Read, described, embedded, put: each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from shared.ingest import acl
from shared.ingest.ahead import ahead
from shared.ingest.child import FilePassages
from shared.ingest.enrich import Enrich
from shared.ingest.folder import File, Listing, fingerprint
from shared.ingest.pages import Unreadable
from shared.ingest.split import VERSION
from shared.ingest.target import Document, Refused, Target, Unusable

AHEAD = 3  # files that are read and embedded while another one is put

# A document to put, nothing where the index has it, or the reason why there is none.
Result = Document | str | None


class Reading(Protocol):
    """Reads a file and splits it."""

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

    `step` is called after each file, with its name.
    """

    reader: Reading
    target: Target
    enrich: Enrich
    prune: bool = False
    step: Callable[[str], None] = lambda _: None

    async def over(self, found: Listing, rules: acl.Acl) -> Summary:
        """Bring the index up to a folder. Raises Unusable, and ChatError where a model fails.

        A run that breaks off can be repeated: what is whole in the index is not read again.
        """
        known = await self.target.known()
        files, summary = found.files, Summary(skipped=list(found.skipped))
        works = (
            self._work(file, rules.of(file.name), known.get(file.name)) for file in found.files
        )
        async with aclosing(ahead(works, AHEAD)) as done:
            async for file, result in done:
                await self._take(summary, file, result, file.name in known)
                self.step(file.name)
        await self._tidy(summary, set(known) - {file.name for file in files})
        await self.target.finish()
        return summary

    async def _work(self, file: File, who: acl.Readers, known: str | None) -> tuple[File, Result]:
        """What becomes of one file, before the index is touched."""
        try:
            made_of = (str(VERSION), self.enrich.made_with, *who.oids, "", *who.groups)
            mark = await asyncio.to_thread(fingerprint, file, *made_of)
            if mark == known:
                return file, None
            read = await self.reader.passages(file.path, file.name)
        except Unreadable as error:
            return file, str(error)
        except OSError as error:
            return file, f"It cannot be opened: {error.strerror}."
        own = (replace(each, oids=who.oids, groups=who.groups) for each in read.passages)
        passages, vectors = await self.enrich.passages(tuple(own))
        return file, Document(file.name, mark, passages, vectors)

    async def _take(self, summary: Summary, file: File, result: Result, known: bool) -> None:
        if result is None:
            summary.unchanged += 1
            return
        try:
            if isinstance(result, Document):
                await self.target.put(result, file.path)
                summary.put += 1
                summary.passages += len(result.passages)
                return
            summary.skipped.append((file.name, result))
            if known:  # what it said before cannot be opened any more
                await self.target.remove(file.name)
        except Unusable:
            raise
        except Refused as refused:
            summary.skipped.append((file.name, str(refused)))

    async def _tidy(self, summary: Summary, gone: Iterable[str]) -> None:
        for name in sorted(gone):
            if not self.prune:
                summary.gone += 1
                continue
            try:
                await self.target.remove(name)
                summary.removed += 1
            except Unusable:
                raise
            except Refused as refused:
                summary.skipped.append((name, str(refused)))
