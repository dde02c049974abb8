"""Answer copies in the SQLite file of conversations, in a table of their own."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import ClassVar

from shared.memory.base import Clock
from shared.memory.copies import (
    MAX_COPIES,
    AnswerCopy,
    TooManyCopies,
    copy_expiry,
    explain_misconfigured,
    parse_copy,
)
from shared.memory.sqlite.connection import MemoryFile

TABLE = """CREATE TABLE IF NOT EXISTS answer_copy (
    id TEXT PRIMARY KEY, expires REAL, content TEXT NOT NULL
)"""
PUT = """INSERT INTO answer_copy VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET content = excluded.content"""

UNUSABLE = (
    "MEMORY_FILE cannot take copies of answers: name another file, or switch them off by "
    "FEEDBACK_COPIES=off."
)


def open_copies(
    path: Path, days: float | None, seconds: float = 10, now: Clock = time.time
) -> SqliteCopies:
    """Return the store in a file, which is created at the first call. Each may take `seconds`."""
    return SqliteCopies(MemoryFile(path, now, seconds), days)


@dataclass(frozen=True, slots=True)
class SqliteCopies:
    """The AnswerCopies of the file."""

    file: MemoryFile
    days: float | None
    max_copies: int = MAX_COPIES
    name: ClassVar[str] = "SQLite"

    async def ready(self) -> None:
        """Check the file. The table may be missing: it is made with the first copy."""
        tables = "SELECT 1 FROM sqlite_schema WHERE name = 'answer_copy'"
        with explain_misconfigured(UNUSABLE):
            if await self.file.fetch(tables):
                await self.file.fetch("SELECT id, expires, content FROM answer_copy LIMIT 1")

    async def put(self, copy: AnswerCopy) -> None:
        await self._delete_expired()
        content = json.dumps(copy.to_json(), ensure_ascii=False)
        row = (copy.id, copy_expiry(self.file.now(), self.days), content)

        def work(connection: sqlite3.Connection) -> None:
            self.file.check_space()
            connection.execute("BEGIN IMMEDIATE")  # no other is stored after the count
            others = "SELECT count(*) FROM answer_copy WHERE id <> ?"
            (count,) = connection.execute(others, (copy.id,)).fetchone()
            if count >= self.max_copies:
                raise TooManyCopies(self.max_copies)
            connection.execute(PUT, row)

        await self.file.run(work)

    async def delete(self, id: str) -> bool:
        await self._delete_expired()
        return await self.file.delete("DELETE FROM answer_copy WHERE id = ?", (id,)) > 0

    async def exists(self, id: str) -> bool:
        await self._delete_expired()
        return bool(await self.file.fetch("SELECT 1 FROM answer_copy WHERE id = ?", (id,)))

    async def all(self) -> Sequence[AnswerCopy]:
        await self._delete_expired()
        rows = await self.file.fetch("SELECT content FROM answer_copy")
        copies = [parse_copy(json.loads(content)) for (content,) in rows]
        return sorted(copies, key=attrgetter("day", "id"))

    async def _delete_expired(self) -> None:
        """Delete the expired copies; create the table first, if it is missing."""
        await self.file.change(TABLE, ())
        await self.file.delete("DELETE FROM answer_copy WHERE expires <= ?", (self.file.now(),))

    async def close(self) -> None:
        await self.file.close()
