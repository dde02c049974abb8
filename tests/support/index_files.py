"""Files of the embedded index, written and searched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ingest.splitting.passages import Passage
from ingest.targets.index_writer import Document
from ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.base import SearchResult
from shared.retrieval.sqlite.retriever import Embedding, SqliteRetriever
from shared.retrieval.sqlite.schema import IndexMeta

NOBODY, ANNA = User(), User("anna", ("board",))
# The vectors of the fake embedding model, by a word in the text.
WORD_VECTORS = {"vehicle": [0.1, 0.9], "teeth": [0.9, 0.1], "dentist": [1.0, 0.0]}


async def embed(texts: Sequence[str]) -> list[list[float]]:
    return [
        next((list(v) for word, v in WORD_VECTORS.items() if word in text), [0.7, 0.7])
        for text in texts
    ]


NO_VECTORS = IndexMeta(Path("/documents"))
EMBEDDING = Embedding("a-model", embed, weight=0.1)


def build_index(index: Path, *passages: Passage, meta: IndexMeta = NO_VECTORS) -> Path:
    """Write an index of passages, each of a file of its own."""

    async def fill() -> None:
        target = SqliteIndexWriter(index, meta)
        try:
            for item in passages:
                vectors = tuple(await embed([item.content])) if meta.model else None
                await target.put(Document(item.sourcefile, "1", (item,), vectors), Path())
            await target.finish()
        finally:
            await target.close()

    asyncio.run(fill())
    return index


def search(
    index: SqliteRetriever, query: str, user: User = NOBODY, **overrides: Any
) -> SearchResult:
    return asyncio.run(index.search(user, query, Overrides(**overrides)))


def search_file(
    path: Path, query: str, embedding: Embedding | None = None, **overrides: Any
) -> SearchResult:
    with closing(SqliteRetriever.open(path, embedding)) as index:
        return search(index, query, **overrides)
