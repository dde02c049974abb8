"""Answer copies in the SQLite file of conversations, in a table of their own."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.memory.base import Clock
from shared.memory.copies import AnswerCopy, parse_copy
from shared.memory.sqlite.connection import MemoryFile

TABLE = """CREATE TABLE IF NOT EXISTS answer_copy (
    id TEXT PRIMARY KEY, expires REAL, content TEXT NOT NULL
)"""
UNEXPIRED = "(expires IS NULL OR expires > ?)"


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

    async def put(self, copy: AnswerCopy) -> None:
        """Store a copy, and delete the expired ones."""
        now = self.file.now()
        expires = now + self.days * 86400 if self.days else None
        row = (copy.id, expires, json.dumps(copy.to_json(), ensure_ascii=False))

        def work(connection: sqlite3.Connection) -> None:
            self.file.check_space()
            connection.execute(TABLE)
            connection.execute("INSERT OR REPLACE INTO answer_copy VALUES (?, ?, ?)", row)

        await self.file.run(work)
        await self.file.delete("DELETE FROM answer_copy WHERE expires <= ?", (now,))

    async def delete(self, id: str) -> bool:
        await self.file.change(TABLE, ())
        statement = f"DELETE FROM answer_copy WHERE id = ? AND {UNEXPIRED}"
        return await self.file.delete(statement, (id, self.file.now())) > 0

    async def all(self) -> Sequence[AnswerCopy]:
        def work(connection: sqlite3.Connection) -> list[Any]:
            connection.execute(TABLE)
            query = f"SELECT content FROM answer_copy WHERE {UNEXPIRED} ORDER BY rowid"
            return connection.execute(query, (self.file.now(),)).fetchall()

        rows = await self.file.run(work)
        return [parse_copy(json.loads(content)) for (content,) in rows]

    async def close(self) -> None:
        await self.file.close()
