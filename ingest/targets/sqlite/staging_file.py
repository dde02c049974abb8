"""The staging file of the embedded index: written beside the index, then replaces it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ingest.targets.index_writer import IndexUnavailable
from shared.retrieval.sqlite import schema
from shared.retrieval.sqlite.connections import connect
from shared.retrieval.sqlite.schema import IndexMeta, UnknownFormat

CACHE_KIB = 65536  # SQLite's page cache while writing
LOCK_WAIT_SECONDS = 10.0  # for readers of the file while it is written
PRIVATE = 0o600  # restricted text; SQLite gives its side files the mode of the database
# Options of FTS5: write segments of 16 MB and merge them only at the end of the run, or at 100
# segments.
FTS_OPTIONS = {"hashsize": 16 * 1024 * 1024, "automerge": 0, "crisismerge": 100}


class StagingFile:
    """The staging file `<index>.part` beside the index at `path`, and the lock of its only writer.

    It gets its name when it is a valid index; SQLite rolls back what a killed run had not
    committed. All methods but `close` require `acquire`, and raise OSError, sqlite3.Error.
    """

    def __init__(self, path: Path, meta: IndexMeta) -> None:
        self.index_path = path
        self._expected = meta
        self._path = _sibling(path, "part")
        self._lock: sqlite3.Connection | None = None
        self._meta_cache: dict[Path, IndexMeta | None] = {}

    def acquire(self) -> None:
        """Lock out other runs until `close` or the end of this process. Raises IndexUnavailable."""
        if self._lock is None:
            _check_is_index(self.index_path)
            self._lock = _acquire_lock(self.index_path)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
        self._lock = None

    def usable_file(self) -> Path | None:
        """The file that a run can continue with: the staging file, else the index, else None."""
        return next(filter(self._is_usable, (self._path, self.index_path)), None)

    def is_up_to_date(self) -> bool:
        """Whether the index has the expected metadata and there is no staging file."""
        return not self._is_usable(self._path) and self._meta(self.index_path) == self._expected

    def restricted_files(self) -> set[str]:
        """The files that the staging file or the index restricts, also if it would be recreated."""
        names: set[str] = set()
        for path in filter(Path.exists, (self._path, self.index_path)):
            with closing(connect(path, "rw", LOCK_WAIT_SECONDS)) as connection:
                names |= _read_restricted_files(connection)
        return names

    def open(self) -> sqlite3.Connection:
        """Open the staging file for writing; it is created if it does not exist."""
        if not self._is_usable(self._path):
            self._create()
        self._path.chmod(PRIVATE)  # a run of an earlier version may have left it
        connection = connect(self._path, "rw", LOCK_WAIT_SECONDS)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.executemany("INSERT INTO words (words, rank) VALUES (?, ?)", FTS_OPTIONS.items())
        return connection

    def replace_index(self) -> None:
        """Replace the index with the closed staging file. Raises IndexUnavailable."""
        if self._read_valid_meta(self._path) is None:
            self._path.unlink()
            raise IndexUnavailable(f"{self._path.name} was damaged and is removed: run this again.")
        _fsync(self._path, os.O_RDWR)
        try:
            os.replace(self._path, self.index_path)
        except PermissionError as error:  # Windows replaces no file that is open
            raise IndexUnavailable(
                f"{self.index_path.name} is in use: stop the app, and run this again "
                "(it continues from here)."
            ) from error
        with suppress(OSError):  # Windows opens no folder
            _fsync(self.index_path.parent, os.O_RDONLY)
        self._meta_cache.clear()

    def _create(self) -> None:
        new = _sibling(self.index_path, "new")
        for old in (new, _journal_path(new), self._path, _journal_path(self._path)):
            old.unlink(missing_ok=True)
        new.touch(PRIVATE, exist_ok=False)
        if self._is_usable(self.index_path):
            shutil.copyfile(self.index_path, new)
        else:
            with closing(sqlite3.connect(new)) as connection:
                schema.create_tables(connection, self._expected)
        os.replace(new, self._path)
        self._meta_cache[self._path] = self._expected

    def _is_usable(self, path: Path) -> bool:
        """Whether a file is a valid index with vectors of the expected model."""
        meta, expected = self._meta(path), self._expected
        if meta is None:
            return False
        return (meta.model, meta.dimensions) == (expected.model, expected.dimensions)

    def _meta(self, path: Path) -> IndexMeta | None:
        if path not in self._meta_cache:
            self._meta_cache[path] = self._read_valid_meta(path)
        return self._meta_cache[path]

    def _read_valid_meta(self, path: Path) -> IndexMeta | None:
        """The metadata of an index file; None if it is missing, damaged or of another kind."""
        if not path.exists():
            return None
        try:
            with closing(connect(path, "rw", LOCK_WAIT_SECONDS)) as connection:
                meta = schema.read_meta(connection)
                (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                return meta if state == "ok" else None
        except (UnknownFormat, sqlite3.DatabaseError):
            return None


def _read_restricted_files(connection: sqlite3.Connection) -> set[str]:
    try:
        return schema.restricted_files(connection)
    except sqlite3.OperationalError:  # such as a lock: the restricted files are unknown
        raise
    except sqlite3.DatabaseError:  # damaged
        return set()


@contextmanager
def map_errors(index: Path) -> Iterator[None]:
    """Map SQLite and file errors to IndexUnavailable."""
    try:
        yield
    except sqlite3.Error as error:
        raise IndexUnavailable(f"{index.name} cannot be written: {error}.") from error
    except OSError as error:
        raise IndexUnavailable(f"{index.name} cannot be written: {error.strerror}.") from error


def _check_is_index(index: Path) -> None:
    """Raise IndexUnavailable where `index` is another kind of file, which must not be replaced."""
    if index.exists() and index.stat().st_size and not schema.is_index_file(index):
        raise IndexUnavailable(
            f"{index.name} is no index of this app: name another INDEX_FILE, or remove it."
        )


def _acquire_lock(index: Path) -> sqlite3.Connection:
    """Acquire SQLite's file lock, which the system releases when the process ends."""
    path = _sibling(index, "lock")
    path.touch(PRIVATE)
    lock = connect(path, "rw", timeout=0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise IndexUnavailable(
            f"Another run is filling {index.name}: wait until it has ended."
        ) from error
    return lock


def _sibling(index: Path, suffix: str) -> Path:
    return index.with_name(f"{index.name}.{suffix}")


def _journal_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-journal")


def _fsync(path: Path, flags: int) -> None:
    """Flush a file or a folder to disk; `flags` are those of `os.open`."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
