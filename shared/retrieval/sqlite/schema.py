"""What does the embedded index hold? Its tables, and how a file's passages get in and out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from shared.text.terms import TOKENIZER, extract_terms

VERSION = "1"
"""The version of the file format: a file of another version is rebuilt.

Raise it with any change of the tables, or of `shared.text.terms.extract_terms`.
"""

MARK = b"ragx"
"""SQLite's application id: what tells our files, of any version, from those of others."""
_MARK_AT = 68  # bytes into the file, by SQLite's file format

# `passage` is read for each hit of a search, so it holds no text. `words` keeps the terms that it
# was given: without them FTS5 could not take back exactly what it had put in.
SCHEMA = f"""
PRAGMA application_id = {int.from_bytes(MARK, "big")};
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE file (
    key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
    sourcefile TEXT NOT NULL
);
CREATE INDEX file_of_source ON file (sourcefile);
CREATE TABLE passage (
    key INTEGER PRIMARY KEY, public INTEGER NOT NULL, category TEXT, file INTEGER NOT NULL,
    id TEXT NOT NULL
);
CREATE INDEX passage_of_file ON passage (file);
CREATE TABLE body (
    key INTEGER PRIMARY KEY, sourcepage TEXT NOT NULL, oids TEXT NOT NULL, groups TEXT NOT NULL,
    content TEXT NOT NULL
);
CREATE TABLE reader (
    kind TEXT NOT NULL, name TEXT NOT NULL, passage INTEGER NOT NULL,
    PRIMARY KEY (kind, name, passage)
) WITHOUT ROWID;
CREATE INDEX reader_of_passage ON reader (passage);
CREATE TABLE picture (passage INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE vector (passage INTEGER PRIMARY KEY, scale REAL NOT NULL, data BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(body, name, tokenize = "{TOKENIZER}");
"""

# The tables with a row for each passage, and what they call its key.
_KEYS = (
    ("words", "rowid"),
    ("body", "key"),
    ("reader", "passage"),
    ("picture", "passage"),
    ("vector", "passage"),
    ("passage", "key"),
)


class UnknownFormat(Exception):
    """The file is no index, or one of another version."""


class Row(Protocol):
    """A passage as it is stored: a Source, and what ingestion makes."""

    @property
    def id(self) -> str:
        """The passage's own name, unlike any other's."""
        ...

    @property
    def content(self) -> str:
        """Its text."""
        ...

    @property
    def sourcepage(self) -> str:
        """What it is cited as."""
        ...

    @property
    def category(self) -> str | None:
        """Of its document; None or empty without one."""
        ...

    @property
    def oids(self) -> tuple[str, ...]:
        """The users who may see it."""
        ...

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups who may see it."""
        ...


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """What holds for the whole index.

    `documents` is the folder that its files came from. `model` made its vectors, of `dimensions`
    numbers each: None and 0 without vectors.
    """

    documents: Path | None = None
    model: str | None = None
    dimensions: int = 0


def create(connection: sqlite3.Connection, meta: IndexMeta) -> None:
    """Make the tables in an empty database. Raises sqlite3.Error."""
    connection.executescript(SCHEMA)
    with connection:
        write_meta(connection, meta)


def is_ours(path: Path) -> bool:
    """Whether a file was made as an index, however old or damaged it is. Raises OSError."""
    with path.open("rb") as file:
        return file.read(_MARK_AT + len(MARK))[_MARK_AT:] == MARK


def write_meta(connection: sqlite3.Connection, meta: IndexMeta) -> None:
    """Put down what holds for the whole index, instead of what was there."""
    rows = {
        "version": VERSION,
        "documents": str(meta.documents or ""),
        "model": meta.model or "",
        "dimensions": str(meta.dimensions),
    }
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows.items())


def read_meta(connection: sqlite3.Connection) -> IndexMeta:
    """What holds for the whole index. Raises OtherFormat, and sqlite3.Error where it is damaged."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        raise UnknownFormat
    rows: Mapping[str, str] = dict(connection.execute("SELECT name, value FROM meta"))
    if rows.get("version") != VERSION:
        raise UnknownFormat
    documents = rows["documents"]
    return IndexMeta(
        Path(documents) if documents else None, rows["model"] or None, int(rows["dimensions"])
    )


def add_file(connection: sqlite3.Connection, name: str, fingerprint: str, sourcefile: str) -> int:
    """Add a file without passages; its key."""
    row = (name, fingerprint, sourcefile)
    done = connection.execute(
        "INSERT INTO file (name, fingerprint, sourcefile) VALUES (?, ?, ?)", row
    )
    return int(done.lastrowid or 0)


def add_passages(connection: sqlite3.Connection, file: int, rows: Sequence[Row]) -> range:
    """Add the passages of the file with the key `file`; their keys, in order."""
    (last,) = connection.execute("SELECT coalesce(max(key), 0) FROM passage").fetchone()
    keys = range(last + 1, last + 1 + len(rows))
    for statement, rows_of in _INSERTS:
        keyed = zip(keys, rows, strict=True)
        made = (made for key, row in keyed for made in rows_of(file, key, row))
        connection.executemany(statement, made)
    return keys


def _passage(file: int, key: int, row: Row) -> Iterable[tuple[Any, ...]]:
    yield key, not (row.oids or row.groups), row.category or None, file, row.id


def _body(_file: int, key: int, row: Row) -> Iterable[tuple[Any, ...]]:
    yield key, row.sourcepage, json.dumps(row.oids), json.dumps(row.groups), row.content


def _words(_file: int, key: int, row: Row) -> Iterable[tuple[Any, ...]]:
    yield key, " ".join(extract_terms(row.content)), " ".join(extract_terms(row.sourcepage))


def _readers(_file: int, key: int, row: Row) -> Iterable[tuple[Any, ...]]:
    kinds = (("oid", row.oids), ("group", row.groups))
    return ((kind, name, key) for kind, given in kinds for name in set(given))


_INSERTS = (
    ("INSERT INTO passage VALUES (?, ?, ?, ?, ?)", _passage),
    ("INSERT INTO body VALUES (?, ?, ?, ?, ?)", _body),
    ("INSERT INTO words (rowid, body, name) VALUES (?, ?, ?)", _words),
    ("INSERT INTO reader VALUES (?, ?, ?)", _readers),
)


def restricted_files(connection: sqlite3.Connection) -> set[str]:
    """The names of the files with passages that only some users may see. Raises sqlite3.Error.

    It must work on a file of any version: a run calls it before it makes an older one anew.
    """
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'passage'").fetchone():
        return set()
    rows = connection.execute(
        "SELECT DISTINCT name FROM passage JOIN file ON file.key = passage.file WHERE NOT public"
    )
    return {name for (name,) in rows}


def remove_file(connection: sqlite3.Connection, name: str) -> None:
    """Take out a file and all that is known of its passages; nothing where it is not there."""
    found = connection.execute("SELECT key FROM file WHERE name = ?", (name,)).fetchone()
    if not found:  # for a new file nothing is looked for: FTS5 would write down what it gathers
        return
    for table, key in _KEYS:
        of_file = f"{key} IN (SELECT key FROM passage WHERE file = ?)"
        connection.execute(f"DELETE FROM {table} WHERE {of_file}", found)
    connection.execute("DELETE FROM file WHERE key = ?", found)
