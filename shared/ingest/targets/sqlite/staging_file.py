"""Where is an index filled while the old one answers? In a part beside it, which replaces it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from shared.ingest.targets.index_writer import IndexUnavailable
from shared.retrieval.sqlite import schema
from shared.retrieval.sqlite.schema import IndexMeta, UnknownFormat

CACHE_KIB = 65536  # of the database, while it is written
WAIT = 10.0  # seconds for whoever looks into a file while it is written
# How FTS5 writes the words down: so many bytes at a time, and only the end of the run brings
# them together, unless one that never ends has written them down very often.
WRITES = {"hashsize": 16 * 1024 * 1024, "automerge": 0, "crisismerge": 100}


class StagingFile:
    """The part beside the index at `path`, with the lock that lets one run alone fill it.

    It has its name only when it can be gone on with: SQLite takes back what a run that was killed
    had not committed. All methods but `close` need `take` first. They raise OSError, sqlite3.Error.
    """

    def __init__(self, path: Path, wanted: IndexMeta) -> None:
        self.index = path
        self._wanted = wanted
        self._path = _beside(path, "part")
        self._lock: sqlite3.Connection | None = None
        self._sound: dict[Path, IndexMeta | None] = {}

    def take(self) -> None:
        """Be the only run, until `close` or this process' end. Raises Unusable."""
        if self._lock is None:
            _check_ours(self.index)
            self._lock = _locked(self.index)

    def close(self) -> None:
        """Let another run begin."""
        if self._lock is not None:
            self._lock.close()
        self._lock = None

    def begun(self) -> Path | None:
        """The part, where there is one that can be gone on with."""
        return self._fitting(self._path)

    def finished(self) -> Path | None:
        """The index, where there is one that can be gone on with."""
        return self._fitting(self.index)

    def is_as_wanted(self) -> bool:
        """Whether the index says of itself what it should, and no part waits to replace it."""
        return not self.begun() and self._meta(self.index) == self._wanted

    def restricted_files(self) -> set[str]:
        """The files that the part or the index restricts, also where it would be made anew."""
        found: set[str] = set()
        for path in filter(Path.exists, (self._path, self.index)):
            with closing(_connect(path)) as connection:
                found |= _restricted_files(connection)
        return found

    def open(self) -> sqlite3.Connection:
        """A connection that writes to the part, which is made where there is none."""
        if not self.begun():
            self._begin()
        connection = _connect(self._path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.executemany("INSERT INTO words (words, rank) VALUES (?, ?)", WRITES.items())
        return connection

    def replace(self) -> None:
        """Let the part take the index's place. Nothing may have it open. Raises Unusable."""
        if self._checked(self._path) is None:
            self._path.unlink()
            raise IndexUnavailable(f"{self._path.name} was damaged and is removed: run this again.")
        _write_through(self._path, os.O_RDWR)
        try:
            os.replace(self._path, self.index)
        except PermissionError as error:  # Windows replaces no file that is open
            said = "is in use: stop the app, and run this again"
            raise IndexUnavailable(f"{self.index.name} {said} (it goes on from here).") from error
        with suppress(OSError):  # Windows opens no folder
            _write_through(self.index.parent, os.O_RDONLY)
        self._sound.clear()

    def _begin(self) -> None:
        new = _beside(self.index, "new")
        for old in (new, _journal(new), self._path, _journal(self._path)):
            old.unlink(missing_ok=True)
        if self.finished():
            shutil.copyfile(self.index, new)
        else:
            with closing(sqlite3.connect(new)) as connection:
                schema.create_tables(connection, self._wanted)
        os.replace(new, self._path)
        self._sound[self._path] = self._wanted

    def _fitting(self, path: Path) -> Path | None:
        found = self._meta(path)
        wanted = (self._wanted.model, self._wanted.dimensions)
        return path if found and (found.model, found.dimensions) == wanted else None

    def _meta(self, path: Path) -> IndexMeta | None:
        if path not in self._sound:
            self._sound[path] = self._checked(path)
        return self._sound[path]

    def _checked(self, path: Path) -> IndexMeta | None:
        """What a file says of itself; None where it is none of ours, or damaged."""
        if not path.exists():
            return None
        try:
            with closing(_connect(path)) as connection:
                meta = schema.read_meta(connection)
                (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                return meta if state == "ok" else None
        except (UnknownFormat, sqlite3.DatabaseError, LookupError, TypeError, ValueError):
            return None


def _restricted_files(connection: sqlite3.Connection) -> set[str]:
    try:
        return schema.restricted_files(connection)
    except sqlite3.OperationalError:  # such as a lock: what the file restricts stays unknown
        raise
    except sqlite3.DatabaseError:  # damaged
        return set()


@contextmanager
def map_errors(index: Path) -> Iterator[None]:
    """The one place where the failures of SQLite and of files become ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise IndexUnavailable(f"{index.name} cannot be written: {error}.") from error
    except OSError as error:
        raise IndexUnavailable(f"{index.name} cannot be written: {error.strerror}.") from error


def _check_ours(index: Path) -> None:
    """Raise Unusable where the file at `index` is somebody else's, which a run would replace."""
    if index.exists() and index.stat().st_size and not schema.is_index_file(index):
        said = "is no index of this app: name another INDEX_FILE, or remove it."
        raise IndexUnavailable(f"{index.name} {said}")


def _locked(index: Path) -> sqlite3.Connection:
    """A lock that every system releases when the process ends, however it ends: SQLite's own."""
    lock = _connect(_beside(index, "lock"), "rwc", 0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        said = f"Another run is filling {index.name}: wait until it has ended."
        raise IndexUnavailable(said) from error
    return lock


def _connect(path: Path, mode: str = "rw", wait: float = WAIT) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    # each call comes from a thread of its own, one at a time
    return sqlite3.connect(address, uri=True, timeout=wait, check_same_thread=False)


def _beside(index: Path, kind: str) -> Path:
    return index.with_name(f"{index.name}.{kind}")


def _journal(database: Path) -> Path:
    return database.with_name(f"{database.name}-journal")


def _write_through(path: Path, how: int) -> None:
    """Have the system write down what it keeps of a file or a folder, opened as `how` says."""
    descriptor = os.open(path, how)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
