"""Puts documents into the embedded index, which answers as before until all are in."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

from shared.ingest.targets.index_writer import Document, DocumentRejected
from shared.ingest.targets.sqlite.staging_file import StagingFile, map_errors
from shared.retrieval.sqlite import schema
from shared.retrieval.sqlite.connections import connect
from shared.retrieval.sqlite.schema import IndexMeta
from shared.retrieval.sqlite.vectors import quantize

T = TypeVar("T")

COMMIT_PASSAGES = 4000  # passages: what a crash may cost, against the time that a commit takes
VACUUM_DIVISOR = 4  # where more than one page in so many is empty, the file is written anew


class SqliteIndexWriter:
    """A Target that fills the index file at `index`.

    All changes go into `<index>.part`, which takes the index's place in `finish`; a run that was
    killed is gone on with. An index of another format, or with vectors by another model or of
    other dimensions than `meta` says, is made anew; a file that is no index is left alone. Every
    method raises Unusable, where no file could be put.
    """

    name = "embedded index"

    def __init__(self, index: Path, meta: IndexMeta, commit_after: int = COMMIT_PASSAGES) -> None:
        self._staging, self._meta, self._commit_after = StagingFile(index, meta), meta, commit_after
        self._connection: sqlite3.Connection | None = None
        self._uncommitted = 0
        self._lock = Lock()

    async def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each file that it holds, by the file's name."""
        return await self._run_in_thread(self._fingerprints)

    async def restricted_files(self) -> Set[str]:
        """The files with passages that only some users may see, whatever made their vectors."""
        return await self._run_in_thread(self._restricted_files)

    async def put(self, document: Document, path: Path) -> None:
        """Replace all that it holds of a file. Raises Refused."""
        await self._run_in_thread(partial(self._put, document))

    async def remove(self, name: str) -> None:
        """Forget a file."""
        await self._run_in_thread(partial(self._remove, name))

    async def finish(self) -> None:
        """Let the index answer with what was put and removed; without a change, leave it alone."""
        await self._run_in_thread(self._finish)

    async def close(self) -> None:
        """Let another run begin. What was not finished stays for it."""
        await self._run_in_thread(self._close)

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(self._run_locked, work)

    def _run_locked(self, work: Callable[[], T]) -> T:
        # A run that is cancelled closes while the thread of its last `put` goes on: no half a file.
        with self._lock, map_errors(self._staging.index_path):
            return work()

    def _fingerprints(self) -> Mapping[str, str]:
        self._staging.acquire()
        if self._connection is not None:
            return _read_fingerprints(self._connection)
        place = self._staging.usable_staging() or self._staging.usable_index()
        if place is None:
            return {}
        with closing(connect(place)) as connection:
            return _read_fingerprints(connection)

    def _restricted_files(self) -> Set[str]:
        self._staging.acquire()
        return self._staging.restricted_files()

    def _put(self, document: Document) -> None:
        self._check_document(document)
        with self._transaction(len(document.passages)) as writing:
            schema.remove_file(writing, document.name)
            _insert(writing, document)

    def _check_document(self, document: Document) -> None:
        wanted, vectors = self._meta.dimensions, document.vectors or ()
        if any(len(vector) != wanted for vector in vectors):
            raise DocumentRejected(
                f"Its vectors have other than {wanted} numbers, as those of the index."
            )
        if wanted and len(vectors) != len(document.passages):
            raise DocumentRejected("It has no vectors, and the other files of the index have.")
        try:
            for text in (document.name, *(passage.content for passage in document.passages)):
                text.encode()
        except UnicodeEncodeError as error:
            raise DocumentRejected("Its name or its text is no Unicode.") from error

    def _remove(self, name: str) -> None:
        with self._transaction(1) as writing:
            schema.remove_file(writing, name)

    @contextmanager
    def _transaction(self, passages: int) -> Iterator[sqlite3.Connection]:
        """Where a file's passages are changed: all of them, or none where anything fails."""
        writing = self._open()
        try:
            yield writing
        except BaseException:
            writing.rollback()
            raise
        self._uncommitted += passages
        if self._uncommitted >= self._commit_after:
            writing.commit()
            self._uncommitted = 0

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._staging.acquire()
            self._connection = self._staging.open()
        return self._connection

    def _finish(self) -> None:
        self._staging.acquire()
        if self._connection is None and self._staging.is_up_to_date():
            return
        writing = self._open()
        schema.write_meta(writing, self._meta)
        writing.commit()
        _optimize(writing)
        self._close_connection()
        self._staging.replace_index()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.commit()
        self._close_connection()
        self._staging.close()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._uncommitted = None, 0


def _read_fingerprints(connection: sqlite3.Connection) -> Mapping[str, str]:
    return dict(connection.execute("SELECT name, fingerprint FROM file"))


def _insert(writing: sqlite3.Connection, document: Document) -> None:
    passages = document.passages
    sourcefile = passages[0].sourcefile if passages else document.name
    file = schema.add_file(writing, document.name, document.fingerprint, sourcefile)
    keys = schema.add_passages(writing, file, passages)
    pictures = (
        (key, passage.image) for key, passage in zip(keys, passages, strict=True) if passage.image
    )
    writing.executemany("INSERT INTO picture VALUES (?, ?)", pictures)
    if document.vectors:
        vectors = zip(keys, quantize(document.vectors), strict=True)
        rows = ((key, scale, data) for key, (scale, data) in vectors)
        writing.executemany("INSERT INTO vector VALUES (?, ?, ?)", rows)


def _optimize(writing: sqlite3.Connection) -> None:
    """Bring the words of all files together, and give back room that nothing uses."""
    writing.execute("INSERT INTO words (words) VALUES ('optimize')")
    writing.commit()
    (pages,) = writing.execute("PRAGMA page_count").fetchone()
    (empty,) = writing.execute("PRAGMA freelist_count").fetchone()
    if empty * VACUUM_DIVISOR > pages:
        writing.execute("VACUUM")
