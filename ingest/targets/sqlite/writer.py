"""Writes documents to the embedded index, which changes only at the end of the run."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Mapping, Set
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar

from ingest.splitting.passages import Passage
from ingest.targets.index_writer import Document, DocumentRejected
from ingest.targets.sqlite.staging_file import StagingFile, map_errors
from shared.domain.events import Source
from shared.retrieval.sqlite import schema
from shared.retrieval.sqlite.connections import connect
from shared.retrieval.sqlite.schema import IndexMeta
from shared.retrieval.sqlite.vectors import add_vectors

P = ParamSpec("P")
T = TypeVar("T")

COMMIT_PASSAGES = 4000  # passages between commits; a crash loses at most these
VACUUM_DIVISOR = 4  # VACUUM if more than one page in this number is empty


def _in_thread(
    method: Callable[Concatenate[SqliteIndexWriter, P], T],
) -> Callable[Concatenate[SqliteIndexWriter, P], Coroutine[Any, Any, T]]:
    """Run a method of the writer in a thread, one call at a time, and map its errors."""

    def run(writer: SqliteIndexWriter, *args: P.args, **options: P.kwargs) -> T:
        # After a cancellation, `close` must wait for the thread of the last `put`.
        with writer._lock, map_errors(writer._staging.index_path):
            return method(writer, *args, **options)

    @wraps(method)
    async def run_in_thread(writer: SqliteIndexWriter, /, *args: P.args, **options: P.kwargs) -> T:
        return await asyncio.to_thread(run, writer, *args, **options)

    return run_in_thread


class SqliteIndexWriter:
    """An IndexWriter for the index file at `index`.

    All changes go to `<index>.part`, which replaces the index in `finish`; an interrupted run is
    continued. An index of another format, or with other vectors than `meta` names, is recreated; a
    file that is no index is not changed. All methods raise IndexUnavailable.
    """

    def __init__(self, index: Path, meta: IndexMeta, commit_after: int = COMMIT_PASSAGES) -> None:
        self._staging, self._meta, self._commit_after = StagingFile(index, meta), meta, commit_after
        self._connection: sqlite3.Connection | None = None
        self._uncommitted = 0
        self._lock = Lock()

    @_in_thread
    def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file, by the file's name."""
        self._staging.acquire()
        if self._connection is not None:
            return _read_fingerprints(self._connection)
        path = self._staging.usable_file()
        if path is None:
            return {}
        with closing(connect(path)) as connection:
            return _read_fingerprints(connection)

    @_in_thread
    def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see, whatever their vectors."""
        self._staging.acquire()
        return self._staging.restricted_files()

    @_in_thread
    def put(self, document: Document, path: Path) -> None:
        """Replace all passages of a file. Raises DocumentRejected."""
        self._check_document(document)
        with self._transaction(len(document.passages)) as connection:
            schema.remove_file(connection, document.name)
            _insert(connection, document)

    @_in_thread
    def remove(self, name: str) -> None:
        with self._transaction(1) as connection:
            schema.remove_file(connection, name)

    @_in_thread
    def finish(self) -> None:
        """Replace the index with the staging file; nothing is written without a change."""
        self._staging.acquire()
        if self._connection is None and self._staging.is_up_to_date():
            return
        connection = self._open()
        schema.write_meta(connection, self._meta)
        connection.commit()
        _optimize(connection)
        self._close_connection()
        self._staging.replace_index()

    @_in_thread
    def close(self) -> None:
        """Commit and release the lock. Unfinished changes stay for the next run."""
        if self._connection is not None:
            self._connection.commit()
        self._close_connection()
        self._staging.close()

    def _check_document(self, document: Document) -> None:
        dimensions, vectors = self._meta.dimensions, document.vectors or ()
        if any(len(vector) != dimensions for vector in vectors):
            raise DocumentRejected(
                f"Its vectors have other than {dimensions} numbers, as those of the index."
            )
        if dimensions and len(vectors) != len(document.passages):
            raise DocumentRejected("It has no vectors, and the other files of the index have.")
        try:
            for text in (document.name, *(passage.content for passage in document.passages)):
                text.encode()
        except UnicodeEncodeError as error:
            raise DocumentRejected("Its name or its text is no Unicode.") from error

    @contextmanager
    def _transaction(self, passages: int) -> Iterator[sqlite3.Connection]:
        """Change a file's passages atomically; commit after `commit_after` passages."""
        connection = self._open()
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        self._uncommitted += passages
        if self._uncommitted >= self._commit_after:
            connection.commit()
            self._uncommitted = 0

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._staging.acquire()
            self._connection = self._staging.open()
        return self._connection

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._uncommitted = None, 0


def _read_fingerprints(connection: sqlite3.Connection) -> Mapping[str, str]:
    return dict(connection.execute("SELECT name, fingerprint FROM file"))


def _insert(connection: sqlite3.Connection, document: Document) -> None:
    passages = document.passages
    sources = [_to_source(passage) for passage in passages]
    keys = schema.add_file(connection, document.name, document.fingerprint, sources)
    images = (
        (key, passage.image) for key, passage in zip(keys, passages, strict=True) if passage.image
    )
    connection.executemany("INSERT INTO picture VALUES (?, ?)", images)
    if document.vectors:
        add_vectors(connection, keys, document.vectors)


def _to_source(passage: Passage) -> Source:
    return Source(
        id=passage.id,
        content=passage.content,
        sourcepage=passage.sourcepage,
        sourcefile=passage.sourcefile,
        category=passage.category,
        oids=passage.oids,
        groups=passage.groups,
        heading=passage.heading,
    )


def _optimize(connection: sqlite3.Connection) -> None:
    """Merge the full-text segments, and reclaim unused space."""
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")
    connection.commit()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (empty,) = connection.execute("PRAGMA freelist_count").fetchone()
    if empty * VACUUM_DIVISOR > pages:
        connection.execute("VACUUM")
