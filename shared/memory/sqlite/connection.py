"""The file that conversations lie in: its tables, its connection, what its failures mean."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import ceil
from pathlib import Path
from threading import Event
from typing import TypeVar

from shared.chat.errors import ChatError, Misconfigured, Unavailable
from shared.memory.base import Clock

T = TypeVar("T")

APPLICATION_ID = int.from_bytes(
    b"ragm", "big"
)  # SQLite's application id: what tells our files from others
SCHEMA_VERSION = 1  # of the tables
BUSY_SECONDS = 5.0  # to wait for another worker, while the file is opened
# What may pass: another worker writes, or there is no room.
TRANSIENT_ERRORS = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
)

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
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


class ForeignFile(Exception):
    """The file is something else, or of another version."""


class MemoryFile:
    """The file and its one connection, in a thread of its own: whoever waits for it holds no other.

    `seconds` is how long one call may take, its wait for the others included.
    """

    def __init__(self, path: Path, now: Clock, seconds: float) -> None:
        self.path, self.now, self.seconds = path, now, seconds
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._thread = ThreadPoolExecutor(1, "memory")

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work in a transaction of its own: all of it, or none.

        None where the time is up before it could begin, or where the caller has given up.
        """
        until, gone = time.monotonic() + self.seconds, Event()
        call = partial(self._run_in_thread, work, until, gone)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except asyncio.CancelledError:
            gone.set()
            raise

    def _run_in_thread(
        self, work: Callable[[sqlite3.Connection], T], until: float, gone: Event
    ) -> T:
        with map_errors():
            connection = self._connect()
            left = until - time.monotonic()
            if left <= 0:
                raise Unavailable(cause="memory: the file is busy")
            connection.execute(f"PRAGMA busy_timeout = {ceil(left * 1000)}")
            with connection:
                done = work(connection)
                if gone.is_set():
                    raise Unavailable(cause="memory: the caller has gone")  # takes it back
            return done

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and _file_identity(self.path) != self._file:
            self._disconnect()  # somebody has removed the file, or put another in its place
        if self._connection is None:
            self._connection = connect(self.path)
            self._file = _file_identity(self.path)
        return self._connection

    async def checkpoint(self) -> None:
        """Let go of what was deleted: until then it stands in the log beside the file.

        Where somebody is reading, nothing is waited for: that would hold up every other worker.
        """
        await self.run(_checkpoint)

    async def close(self) -> None:
        """Close the file, once."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _file_identity(path: Path) -> tuple[int, int] | None:
    """What tells the file at a path from every other; None where there is none."""
    try:
        known = path.stat()
    except FileNotFoundError:
        return None
    return known.st_dev, known.st_ino


def _checkpoint(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


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
        if tables and (mark, version) != (APPLICATION_ID, SCHEMA_VERSION):
            raise ForeignFile
        _configure(connection)
        if not tables:
            connection.executescript(SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _configure(connection: sqlite3.Connection) -> None:
    """Set what holds for a connection. For the log alone SQLite does not wait by itself."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.executescript(SETUP)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.02)


@contextmanager
def map_errors() -> Iterator[None]:
    """The one place where the failures of SQLite and of its file become ours."""
    try:
        yield
    except ChatError:
        raise
    except (sqlite3.Error, ForeignFile, OSError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in TRANSIENT_ERRORS:
            raise Unavailable(cause=f"memory: {error}") from error
        reason = getattr(error, "strerror", None) or "it is no file of ours that can be written"
        cause = f"MEMORY_FILE: {type(error).__name__}: {reason}."
        raise Misconfigured(cause=cause) from error
