"""The file that conversations lie in: its tables, its connection, what its failures mean."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeVar

from shared.errors import ChatError, Misconfigured, Unavailable
from shared.memory import Clock

T = TypeVar("T")

MARK = int.from_bytes(b"ragm", "big")  # SQLite's application id: what tells our files from others
VERSION = 1  # of the tables
BUSY_SECONDS = 5.0  # to wait for another worker's write
# What may pass: another worker writes, or there is no room.
PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

# What is deleted is overwritten: a conversation is somebody's own.
SETUP = "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;"
SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS conversation (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL,
    expires REAL
);
CREATE INDEX IF NOT EXISTS conversation_of ON conversation (owner, id);
CREATE INDEX IF NOT EXISTS conversation_until ON conversation (expires);
CREATE TABLE IF NOT EXISTS interaction (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL,
    conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    created TEXT NOT NULL, input TEXT NOT NULL, prompt_template TEXT NOT NULL,
    response TEXT NOT NULL, origin TEXT NOT NULL, additional_info TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS interaction_of ON interaction (conversation, id);
CREATE TABLE IF NOT EXISTS pipeline (name TEXT PRIMARY KEY, definition TEXT NOT NULL);
PRAGMA application_id = {MARK};
PRAGMA user_version = {VERSION};
COMMIT;
"""


class NotOurs(Exception):
    """The file is something else, or of another version."""


class MemoryFile:
    """The file and its one connection, for one thread at a time."""

    def __init__(self, path: Path, now: Clock) -> None:
        self.path, self.now = path, now
        self._connection: sqlite3.Connection | None = None
        self._turn = Lock()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work in a transaction of its own: all of it, or none."""
        return await asyncio.to_thread(self._alone, work)

    def _alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._turn, translated():
            if self._connection is None:
                self._connection = connect(self.path)
            with self._connection:
                return work(self._connection)

    async def close(self) -> None:
        """Close the file."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._turn:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the file, made with its tables where there is none.

    Raises NotOurs, OSError, sqlite3.Error.
    """
    path.touch(mode=0o600)  # what people said is nobody else's
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if tables and (mark, version) != (MARK, VERSION):
            raise NotOurs
        connection.executescript(SETUP)
        if not tables:
            connection.executescript(SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def translated() -> Iterator[None]:
    """The one place where the failures of SQLite and of its file become ours."""
    try:
        yield
    except ChatError:
        raise
    except (sqlite3.Error, NotOurs, OSError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in PASSING:
            raise Unavailable(cause=f"memory: {error}") from error
        cause = f"MEMORY_FILE: {type(error).__name__}: it is no file of ours that can be written."
        raise Misconfigured(cause=cause) from error
