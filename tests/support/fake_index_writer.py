"""In-memory fakes of IndexWriter and SandboxReader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from pathlib import Path

from ingest.document import Page, UnreadableDocument
from ingest.sandbox import SandboxLimits, SandboxReader
from ingest.splitting.passages import Passage, split_document
from ingest.targets.index_writer import Document, DocumentRejected


class FakeIndexWriter:
    """Keeps documents by name; `rejections` maps names to the reason for rejecting them."""

    def __init__(self, rejections: Mapping[str, str] | None = None) -> None:
        self.rejections = rejections or {}
        self.documents: dict[str, Document] = {}
        self.put_names: list[str] = []
        self.finish_calls = 0
        self.rejects_all = False

    async def fingerprints(self) -> Mapping[str, str]:
        return {name: document.fingerprint for name, document in self.documents.items()}

    async def restricted_files(self) -> Set[str]:
        documents = self.documents.values()
        return {
            one.name for one in documents if any(each.oids or each.groups for each in one.passages)
        }

    async def put(self, document: Document, path: Path) -> None:
        self.put_names.append(document.name)
        if self.rejects_all:
            raise DocumentRejected("It takes no more.")
        if document.name in self.rejections:
            raise DocumentRejected(self.rejections[document.name])
        self.documents[document.name] = document

    async def remove(self, name: str) -> None:
        if name in self.rejections:
            raise DocumentRejected(self.rejections[name])
        del self.documents[name]

    async def finish(self) -> None:
        self.finish_calls += 1

    async def close(self) -> None:
        pass


class FakePassageReader(SandboxReader):
    """Reads text files; the text "broken" is unreadable. Counts concurrent reads."""

    def __init__(self, max_bytes: int = 1_000_000) -> None:
        super().__init__(SandboxLimits(max_bytes=max_bytes))
        self.read_names: list[str] = []
        self.current = self.max_concurrent = 0

    async def read_passages(self, path: Path, name: str) -> tuple[Passage, ...]:
        self.read_names.append(name)
        self.current += 1
        self.max_concurrent = max(self.max_concurrent, self.current)
        await asyncio.sleep(0)
        self.current -= 1
        text = path.read_text("utf-8")
        if text == "broken":
            raise UnreadableDocument("It is damaged.")
        return tuple(split_document(name, [Page(text)]))
