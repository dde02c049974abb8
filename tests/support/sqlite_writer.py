"""Runs of the SQLite writer with generated documents, also in a process that is killed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from ingest.splitting.passages import Passage
from ingest.targets.index_writer import Document
from ingest.targets.sqlite.writer import SqliteIndexWriter
from shared.retrieval.sqlite.schema import IndexMeta

MODEL = IndexMeta(Path("/documents"), "a-model", 3)
COMMIT_AFTER = 40  # passages: so that a run has many commits, and can be killed between two
WORDS = "dental vision emergency pharmacy deductible premium network referral claim board".split()
Folder = Mapping[str, int]
"""The version of each file."""


def document(name: str, version: int) -> Document:
    """Returns a document that depends only on its name and version."""
    chance = Random(f"{name} {version}")
    passages = tuple(passage(chance, name, number) for number in range(chance.randrange(30)))
    vectors = tuple(tuple(chance.gauss(0, 1) for _ in range(3)) for _ in passages)
    return Document(name, f"version {version}", passages, vectors)


def passage(chance: Random, name: str, number: int) -> Passage:
    return Passage(
        id=f"{name}-{number}",
        content=" ".join(chance.choices(WORDS, k=chance.randrange(1, 6))),
        sourcepage=f"{name}#page={number}",
        sourcefile=name,
        category=chance.choice(["", "plans", "company"]),
        oids=tuple(chance.sample(["a", "b"], chance.randrange(3))) if chance.random() < 0.3 else (),
        groups=("g",) if chance.random() < 0.1 else (),
        image=b"\x89PNG\r\n\x1a\n" + chance.randbytes(9) if chance.random() < 0.1 else None,
    )


async def update_index(index: Path, versions: Folder, meta: IndexMeta = MODEL) -> None:
    """Update the index as the command does: write changed documents, remove missing ones."""
    writer = SqliteIndexWriter(index, meta, COMMIT_AFTER)
    try:
        known = await writer.fingerprints()
        for name, version in versions.items():
            new = document(name, version)
            if known.get(name) != new.fingerprint:
                await writer.put(new, Path(name))
        for name in known.keys() - versions.keys():
            await writer.remove(name)
        await writer.finish()
    finally:
        await writer.close()


def run(index: Path, versions: Folder) -> None:
    """Run `update_index`, in a process of its own."""
    asyncio.run(update_index(index, versions))


QUERIES = {
    "meta": "SELECT * FROM meta ORDER BY name",
    "file": "SELECT name, fingerprint, sourcefile FROM file ORDER BY name",
    "passage": "SELECT id, public, category, name FROM passage JOIN file ON file.key = file"
    " ORDER BY id",
    "body": "SELECT id, sourcepage, oids, groups, content FROM body JOIN passage USING (key)"
    " ORDER BY id",
    "reader": "SELECT kind, name, id FROM reader JOIN passage ON key = passage ORDER BY 1, 2, 3",
    "picture": "SELECT id, data FROM picture JOIN passage ON key = passage ORDER BY id",
    "vector": "SELECT id, scale, data FROM vector JOIN passage ON key = passage ORDER BY id",
    "words": "SELECT id, body, words.name FROM words JOIN passage ON key = words.rowid ORDER BY id",
    "left over": "SELECT (SELECT count(*) FROM body) - (SELECT count(*) FROM passage)",
}


def dump_index(index: Path) -> dict[str, Any]:
    """Returns the contents of an index in an order that is independent of the writes."""
    with closing(sqlite3.connect(index)) as database:
        database.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
        return {name: database.execute(query).fetchall() for name, query in QUERIES.items()}
