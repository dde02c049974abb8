"""An index in a dictionary, and a reader of files whose text is all there is to say of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from pathlib import Path

from shared.ingest.document import Page, UnreadableDocument
from shared.ingest.sandbox.process import FilePassages
from shared.ingest.splitting.passages import passages
from shared.ingest.targets.index_writer import Document, DocumentRejected


class FakeTarget:
    """Keeps documents by name; `refuses` says what it does not take, and why."""

    name = "fake"

    def __init__(self, refuses: Mapping[str, str] | None = None) -> None:
        self.refuses = refuses or {}
        self.held: dict[str, Document] = {}
        self.puts: list[str] = []
        self.finished = 0
        self.takes_none = False

    async def known(self) -> Mapping[str, str]:
        return {name: document.fingerprint for name, document in self.held.items()}

    async def restricted_files(self) -> Set[str]:
        held = self.held.values()
        return {one.name for one in held if any(each.oids or each.groups for each in one.passages)}

    async def put(self, document: Document, path: Path) -> None:
        self.puts.append(document.name)
        if self.takes_none:
            raise DocumentRejected("It takes no more.")
        if document.name in self.refuses:
            raise DocumentRejected(self.refuses[document.name])
        self.held[document.name] = document

    async def remove(self, name: str) -> None:
        if name in self.refuses:
            raise DocumentRejected(self.refuses[name])
        del self.held[name]

    async def finish(self) -> None:
        self.finished += 1

    async def close(self) -> None:
        pass


class FakeReader:
    """Reads text; a file that says "broken" cannot be read. Counts what is being read at once."""

    def __init__(self, largest: int = 1_000_000) -> None:
        self.largest = largest
        self.names: list[str] = []
        self.at_once = self.most = 0

    async def passages(self, path: Path, name: str) -> FilePassages:
        self.names.append(name)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        text = path.read_text("utf-8")
        if text == "broken":
            raise UnreadableDocument("It is damaged.")
        return FilePassages(tuple(passages(name, [Page(text)])))
