"""The SQLite file of conversations: its tables, its connection, the mapping of its errors."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from math import ceil
from pathlib import Path
from shutil import disk_usage
from threading import Event
from typing import Any, TypeVar

from shared.domain.errors import ChatError, Misconfigured, Unavailable
from shared.memory.base import TURN_OVERHEAD_BYTES, Clock

T = TypeVar("T")

APPLICATION_ID = int.from_bytes(b"ragm", "big")  # SQLite's application id
SCHEMA_VERSION = 4
BUSY_SECONDS = 5.0  # to wait for another worker when the file is opened
BUSY_ERRORS = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)  # another worker writes
DISK_ERRORS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
SPARE_BYTES = 4 * 1024 * 1024  # of the disk, which no write takes: a deletion needs room, too

# secure_delete: deleted conversations are overwritten, for privacy.
SETUP = "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;"
TEXTS = ("input", "prompt_template", "response", "origin", "additional_info", "parent", "details")
# The size of a turn without its feedback.
BYTES = f"""bytes INTEGER AS (
    {TURN_OVERHEAD_BYTES} + {" + ".join(f"length(CAST({text} AS BLOB))" for text in TEXTS)}
)"""
# The columns of version 4. The size of a turn is stored in the index alone, which sums those of an
# owner; a column of its own, since SQLite before 3.35 cannot drop the one of version 3.
RATED = (
    "request TEXT NOT NULL DEFAULT ''",
    "feedback TEXT NOT NULL DEFAULT ''",
    "all_bytes INTEGER AS (bytes + length(CAST(request || feedback AS BLOB)))",
)
INDEXES = (
    "CREATE INDEX IF NOT EXISTS interaction_size ON interaction (owner, conversation, all_bytes)",
    # Without the owner: that index would be preferred for the sum, and reads all texts.
    "CREATE INDEX IF NOT EXISTS interaction_request ON interaction (request)",
)
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
    response TEXT NOT NULL, origin TEXT NOT NULL, additional_info TEXT NOT NULL,
    parent TEXT NOT NULL DEFAULT '', details TEXT NOT NULL DEFAULT '', {BYTES},
    {", ".join(RATED)}
);
CREATE INDEX IF NOT EXISTS interaction_of ON interaction (conversation, id);
{"; ".join(INDEXES)};
CREATE TABLE IF NOT EXISTS pipeline (name TEXT PRIMARY KEY, definition TEXT NOT NULL);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
# The statements that update a file of an earlier version to the next one.
UPDATES = {
    1: (
        "ALTER TABLE interaction ADD COLUMN parent TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE interaction ADD COLUMN details TEXT NOT NULL DEFAULT ''",
        "PRAGMA user_version = 2",
    ),
    2: (
        f"ALTER TABLE interaction ADD COLUMN {BYTES}",
        "PRAGMA user_version = 3",
    ),
    3: (
        *(f"ALTER TABLE interaction ADD COLUMN {column}" for column in RATED),
        "DROP INDEX IF EXISTS interaction_bytes",
        *INDEXES,
        "PRAGMA user_version = 4",
    ),
}
VERSIONS = (*UPDATES, SCHEMA_VERSION)


class ForeignFile(Exception):
    """The file is of another application, or of another version."""


class DiskFull(Unavailable):
    """There is no room on the disk, or it fails."""


class MemoryFile:
    """The file and its only connection, which a thread of its own uses: calls block no other.

    `seconds` limits one call, with its wait for others.
    """

    def __init__(self, path: Path, now: Clock, seconds: float) -> None:
        self.path, self.now, self.seconds = path, now, seconds
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._thread = ThreadPoolExecutor(1, "memory")

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in a transaction.

        It is rolled back if the caller was cancelled, and does not start after the time limit.
        Raises ChatErrors.
        """
        deadline, cancelled = time.monotonic() + self.seconds, Event()
        call = partial(self._run_in_thread, work, deadline, cancelled)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def fetch(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query. Raises ChatErrors."""
        return await self.run(lambda connection: connection.execute(query, values).fetchall())

    async def change(self, statement: str, values: Sequence[object]) -> int:
        """Run a statement. Returns the number of changed rows. Raises ChatErrors."""
        return await self.run(lambda connection: connection.execute(statement, values).rowcount)

    async def delete(self, statement: str, values: Sequence[object], batch: str = "") -> int:
        """Delete rows, also from the write-ahead log. Returns their number. Raises ChatErrors.

        On a full disk the log is given back first, and `batch`, which deletes a part of the rows
        with the same values, is repeated: overwriting all of them would take their size again.
        """
        try:
            count = await self.change(statement, values)
        except DiskFull:
            await self.checkpoint()
            while batch and await self.change(batch, values):
                await self.checkpoint()
            count = await self.change(statement, values)
        await self.checkpoint()
        return count

    def check_space(self) -> None:
        """Raise DiskFull where a write could leave a deletion without room.

        Before a deletion, a checkpoint may have to enlarge the file by the size of the log.
        """
        with suppress(FileNotFoundError):
            log = self.path.with_name(f"{self.path.name}-wal").stat().st_size
            if disk_usage(self.path.parent).free < log + SPARE_BYTES:
                raise DiskFull(cause="memory: the disk is nearly full")

    def _run_in_thread(
        self, work: Callable[[sqlite3.Connection], T], deadline: float, cancelled: Event
    ) -> T:
        with map_errors():
            connection = self._connect()
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable(cause="memory: the file is busy")
            connection.execute(f"PRAGMA busy_timeout = {ceil(left * 1000)}")
            with connection:
                result = work(connection)
                if cancelled.is_set():
                    raise Unavailable(cause="memory: the caller has cancelled")  # rolls back
            return result

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and _file_identity(self.path) != self._file:
            self._disconnect()  # the file was removed or replaced
        if self._connection is None:
            self._connection = connect(self.path)
            self._file = _file_identity(self.path)
        return self._connection

    async def checkpoint(self) -> None:
        """Checkpoint the write-ahead log, which still contains deleted rows.

        It does not wait for readers: that would block every other worker. If the file is busy, the
        next deletion does it.
        """
        with suppress(ChatError):
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
    """Return device and inode of a file; None if it is missing."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _checkpoint(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, or create it with its tables.

    Raises ForeignFile, OSError, sqlite3.Error.
    """
    path.touch(mode=0o600)  # conversations are private
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if tables and (mark != APPLICATION_ID or _version(connection) not in VERSIONS):
            raise ForeignFile
        _configure(connection)
        if tables:
            _update(connection)
        else:
            connection.executescript(SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _update(connection: sqlite3.Connection) -> None:
    """Update the tables of an earlier version, in one transaction."""
    if _version(connection) == SCHEMA_VERSION:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")  # another worker may update the same file
        while (version := _version(connection)) != SCHEMA_VERSION:
            for statement in UPDATES[version]:
                connection.execute(statement)


def _configure(connection: sqlite3.Connection) -> None:
    """Set the options of a connection. SQLite does not wait by itself to switch to WAL."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.executescript(SETUP)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


@contextmanager
def map_errors() -> Iterator[None]:
    """Map errors of SQLite and of its file to ChatErrors."""
    try:
        yield
    except ChatError:
        raise
    except (sqlite3.Error, ForeignFile, OSError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (*BUSY_ERRORS, *DISK_ERRORS):
            kind = DiskFull if code in DISK_ERRORS else Unavailable
            raise kind(cause=f"memory: {error}") from error
        reason = getattr(error, "strerror", None) or "it is not a writable file of this app"
        cause = f"MEMORY_FILE: {type(error).__name__}: {reason}."
        raise Misconfigured(cause=cause) from error
