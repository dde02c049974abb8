"""Where is the embedded index read from? A database in memory, or a file that may be replaced."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from shared.chat.errors import Misconfigured, Unavailable
from shared.chat.events import Source
from shared.retrieval.sqlite.schema import (
    IndexMeta,
    UnknownFormat,
    add_file,
    add_passages,
    create,
    read_meta,
)
from shared.retrieval.sqlite.vectors import Vectors, load

AGAIN = "INDEX_FILE: {} Make it anew by `make index DOCS=folder`."
Stamp = tuple[int, int, int]


class IndexReplaced(Exception):
    """The file is another one than the one that a search began with."""


@dataclass(slots=True)
class OpenIndex:
    """One finished index, in memory or in a file, and its connections that are idle.

    `path` and `stamp` are None for one in memory, which has one connection and no other.
    """

    meta: IndexMeta
    pictures: bool
    idle: list[sqlite3.Connection]
    path: Path | None = None
    stamp: Stamp | None = None
    closed: bool = False
    loaded: Vectors | None = None
    turn: Lock = field(default_factory=Lock)  # who takes and gives connections
    alone: Any = field(default_factory=RLock)  # who does what is for one at a time

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for one thread at a time. Raises Replaced, ChatErrors."""
        if self.path is None:
            with self.alone, map_errors():
                yield self.idle[0]
            return
        with map_errors():
            connection = self._taken(self.path)
            try:
                yield connection
            finally:
                self._given(connection)

    def _taken(self, path: Path) -> sqlite3.Connection:
        with self.turn:
            if self.idle:
                return self.idle.pop()
        connection = connect(path)
        if stamp(path) != self.stamp:
            connection.close()
            raise IndexReplaced
        return connection

    def _given(self, connection: sqlite3.Connection) -> None:
        with self.turn:
            if not self.closed:
                self.idle.append(connection)
                return
        connection.close()

    def vectors(self, connection: sqlite3.Connection) -> Vectors:
        """The vectors, read at the first question that needs them."""
        with self.alone:
            if self.loaded is None:
                self.loaded = load(connection, self.meta.dimensions)
            return self.loaded

    def close(self) -> None:
        """Close what is idle now, and the others when they are given back."""
        with self.turn:
            self.closed = True
            for connection in self.idle:
                connection.close()
            if self.path is not None:
                self.idle.clear()


class CurrentIndex:
    """The index as it is now: the one in memory, or the one that lies in the file today."""

    def __init__(self, place: OpenIndex | Path) -> None:
        self._place = place
        self._state = place if isinstance(place, OpenIndex) else None
        self._lock = Lock()

    def now(self) -> OpenIndex:
        """The state to search in. Raises Misconfigured, Unavailable."""
        if isinstance(self._place, OpenIndex):
            return self._place
        with self._lock, map_errors():
            return self._in_file(self._place)

    def _in_file(self, path: Path) -> OpenIndex:
        if self._state and self._state.stamp == stamp(path):
            return self._state
        self.close()
        self._state = None  # also where the new file cannot be opened
        self._state = opened(path)
        return self._state

    def close(self) -> None:
        """Close the connections that nobody uses."""
        if self._state:
            self._state.close()


def in_memory(passages: Iterable[Source], documents: Path | None = None) -> OpenIndex:
    """An index of some passages, of the files in `documents`. Raises what reading them raises."""
    files: dict[str, list[Source]] = {}
    for passage in passages:
        files.setdefault(passage.sourcefile, []).append(passage)
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    create(connection, IndexMeta())
    with connection:
        for name, rows in files.items():
            add_passages(connection, add_file(connection, name, "", name), rows)
    return OpenIndex(IndexMeta(documents=documents), False, [connection])


def stamp(path: Path) -> Stamp:
    """What changes when a file is replaced. Raises OSError."""
    known = path.stat()
    return known.st_ino, known.st_mtime_ns, known.st_size


def connect(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing, and so works in a folder that cannot be written to."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def opened(path: Path) -> OpenIndex:
    """The index in a file. Raises Misconfigured, Unavailable."""
    with map_errors():
        seen = stamp(path)
        connection = connect(path)
        try:
            meta = read_meta(connection)
            pictures = has_pictures(connection)
        except BaseException:
            connection.close()
            raise
        return OpenIndex(meta, pictures, [connection], path, seen)


def has_pictures(connection: sqlite3.Connection) -> bool:
    """Whether any passage has one."""
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM picture)").fetchone()[0])


@contextmanager
def map_errors() -> Iterator[None]:
    """The one place where the failures of SQLite and of its file become ours."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        raise Unavailable(cause=f"the embedded index: {error}") from error
    except UnknownFormat as error:
        said = "the file is no index, or one of another version of this app."
        raise Misconfigured(cause=AGAIN.format(said)) from error
    except (sqlite3.Error, ValueError, TypeError, LookupError) as error:
        raise Misconfigured(cause=AGAIN.format("the file is damaged.")) from error
    except OSError as error:
        raise Misconfigured(cause=AGAIN.format(f"{error.strerror}.")) from error
