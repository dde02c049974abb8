"""Connections to the embedded index: a database in memory, or a file that may be replaced."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, RLock
from types import MappingProxyType
from typing import Any, NamedTuple

from shared.domain.errors import Misconfigured, Unavailable
from shared.domain.events import Source
from shared.retrieval.sqlite import schema
from shared.retrieval.sqlite.vectors import Vectors, add_vectors, load_vectors

INDEX_FILE_ERROR = "INDEX_FILE: {} Rebuild it with `make index DOCS=folder`."


class FileIdentity(NamedTuple):
    """What changes when a file is replaced."""

    inode: int
    modified_ns: int
    size: int


class IndexReplaced(Exception):
    """The index file was replaced during a search."""


@dataclass(slots=True)
class OpenIndex:
    """A complete index, in memory or in a file, with a pool of idle connections.

    `documents` and `passages` are their numbers. `path` and `identity` are None for an index in
    memory, which has exactly one connection.
    """

    meta: schema.IndexMeta
    documents: int
    passages: int
    has_images: bool
    idle_connections: list[sqlite3.Connection]
    path: Path | None = None
    identity: FileIdentity | None = None
    closed: bool = False
    cached_vectors: Vectors | None = None
    pool_lock: Lock = field(default_factory=Lock)  # guards idle_connections and closed
    lock: Any = field(default_factory=RLock)  # guards the one connection in memory, and the vectors

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection, for one thread. Raises IndexReplaced, ChatErrors."""
        if self.path is None:
            with self.lock, map_errors():
                yield self.idle_connections[0]
            return
        with map_errors():
            connection = self._acquire(self.path)
            try:
                yield connection
            finally:
                self._release(connection)

    def _acquire(self, path: Path) -> sqlite3.Connection:
        with self.pool_lock:
            if self.idle_connections:
                return self.idle_connections.pop()
        connection = connect(path)
        if file_identity(path) != self.identity:
            connection.close()
            raise IndexReplaced
        return connection

    def _release(self, connection: sqlite3.Connection) -> None:
        with self.pool_lock:
            if not self.closed:
                self.idle_connections.append(connection)
                return
        connection.close()

    def vectors(self) -> Vectors:
        """The vectors of the index, loaded at the first call. Raises IndexReplaced, ChatErrors."""
        with self.lock:
            if self.cached_vectors is None:
                with self.connection() as connection:
                    self.cached_vectors = load_vectors(connection, self.meta.dimensions)
            return self.cached_vectors

    def close(self) -> None:
        """Close idle connections now, and borrowed ones when they are released."""
        with self.pool_lock:
            self.closed = True
            for connection in self.idle_connections:
                connection.close()
            if self.path is not None:
                self.idle_connections.clear()


class CurrentIndex:
    """The current index: one in memory, or the one in a file, opened again when it is replaced."""

    def __init__(self, source: OpenIndex | Path) -> None:
        self._source = source
        self._index = source if isinstance(source, OpenIndex) else None
        self._lock = Lock()

    def get(self) -> OpenIndex:
        """Return the index to search. Raises Misconfigured, Unavailable."""
        if isinstance(self._source, OpenIndex):
            return self._source
        with self._lock, map_errors():
            if self._index is None or self._index.identity != file_identity(self._source):
                self.close()
                self._index = None  # stays None if the new file cannot be opened
                self._index = open_index(self._source)
            return self._index

    def close(self) -> None:
        """Close the idle connections."""
        if self._index:
            self._index.close()


def build_in_memory(
    passages: Iterable[Source],
    meta: schema.IndexMeta,
    vectors: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> OpenIndex:
    """Build an index of passages in memory. `vectors` are those of the passages, by their ids.

    Raises what iterating over `passages` raises.
    """
    files: dict[str, list[Source]] = {}
    for passage in passages:
        files.setdefault(passage.sourcefile, []).append(passage)
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    schema.create_tables(connection, meta)
    with connection:
        for name, rows in files.items():
            keys = schema.add_file(connection, name, "", rows)
            if vectors:
                add_vectors(connection, keys, [vectors[row.id] for row in rows])
    counts = schema.count_documents_and_passages(connection)
    return OpenIndex(meta, *counts, False, [connection])


def file_identity(path: Path) -> FileIdentity:
    """Return the identity of a file. Raises OSError."""
    status = path.stat()
    return FileIdentity(status.st_ino, status.st_mtime_ns, status.st_size)


def connect(path: Path, mode: str = "ro", timeout: float = 5) -> sqlite3.Connection:
    """Return a connection for any thread, one at a time. `timeout` is for a lock, in seconds.

    The default `mode` of SQLite also works in a read-only folder.
    """
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=timeout, check_same_thread=False)


def open_index(path: Path) -> OpenIndex:
    """Open the index in a file. Raises schema.UnknownFormat, OSError, sqlite3.Error."""
    identity = file_identity(path)
    connection = connect(path)
    try:
        meta = schema.read_meta(connection)
        counts = schema.count_documents_and_passages(connection)
        (has_images,) = connection.execute("SELECT EXISTS (SELECT 1 FROM picture)").fetchone()
    except BaseException:
        connection.close()
        raise
    return OpenIndex(meta, *counts, bool(has_images), [connection], path, identity)


@contextmanager
def map_errors() -> Iterator[None]:
    """Map errors of SQLite and of its file to ChatErrors."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        raise Unavailable(cause=f"the embedded index: {error}") from error
    except schema.UnknownFormat as error:
        message = "the file is not an index, or one of another version of this app."
        raise Misconfigured(cause=INDEX_FILE_ERROR.format(message)) from error
    except sqlite3.Error as error:
        raise Misconfigured(cause=INDEX_FILE_ERROR.format("the file is damaged.")) from error
    except OSError as error:
        raise Misconfigured(cause=INDEX_FILE_ERROR.format(f"{error.strerror}.")) from error
