"""The tables of the embedded index; adds and removes the passages of a file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.domain.events import Source
from shared.text import TOKENIZER, extract_terms

VERSION = "2"
"""Version of the file format: ingestion rebuilds a file of another version.

Change it with any change of the tables, or of `shared.text.extract_terms`.
"""

APPLICATION_ID = b"ragx"
"""SQLite's application id of an index file, of any version."""
_APPLICATION_ID_OFFSET = 68  # bytes into the file, by SQLite's file format

# `passage` is read for each hit of a search, so it has no text. `words` stores its terms: without
# them FTS5 could not delete a row exactly.
SCHEMA = f"""
PRAGMA application_id = {int.from_bytes(APPLICATION_ID, "big")};
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
    content TEXT NOT NULL, heading TEXT NOT NULL
);
CREATE TABLE reader (
    kind TEXT NOT NULL, name TEXT NOT NULL, passage INTEGER NOT NULL,
    PRIMARY KEY (kind, name, passage)
) WITHOUT ROWID;
CREATE INDEX reader_of_passage ON reader (passage);
CREATE TABLE picture (passage INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE vector (passage INTEGER PRIMARY KEY, scale REAL NOT NULL, data BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(body, name, heading, tokenize = "{TOKENIZER}");
"""

# The tables with rows of a passage, and their columns with its key.
_KEY_COLUMNS = (
    ("words", "rowid"),
    ("body", "key"),
    ("reader", "passage"),
    ("picture", "passage"),
    ("vector", "passage"),
    ("passage", "key"),
)


class UnknownFormat(Exception):
    """The file is not an index, or one of another version."""


class DamagedRow(sqlite3.DatabaseError):
    """A row is missing, or has another content than this module writes."""


@contextmanager
def parse_rows() -> Iterator[None]:
    """Map the exceptions of damaged rows to DamagedRow.

    For the parsing of what a query has returned alone: from other code these exceptions are bugs.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError) as error:
        raise DamagedRow(type(error).__name__) from error


def fetch_text(connection: sqlite3.Connection, query: str, key: int) -> str:
    """Return the only column, a text, of the row with a key. Raises sqlite3.Error."""
    row = connection.execute(query, (key,)).fetchone()
    if row is None or not isinstance(row[0], str):
        raise DamagedRow("a row is missing, or its text")
    return row[0]


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """Properties of the whole index.

    `documents` is the folder of its files. `model` is the embedding model of its vectors, which
    have `dimensions` components each: None and 0 without vectors.
    """

    documents: Path | None = None
    model: str | None = None
    dimensions: int = 0


def create_tables(connection: sqlite3.Connection, meta: IndexMeta) -> None:
    """Create the tables in an empty database. Raises sqlite3.Error."""
    connection.executescript(SCHEMA)
    with connection:
        write_meta(connection, meta)


def is_index_file(path: Path) -> bool:
    """Whether a file is an index, of any version, even a damaged one. Raises OSError."""
    with path.open("rb") as file:
        file.seek(_APPLICATION_ID_OFFSET)
        return file.read(len(APPLICATION_ID)) == APPLICATION_ID


def write_meta(connection: sqlite3.Connection, meta: IndexMeta) -> None:
    """Replace the properties of the index."""
    rows = {
        "version": VERSION,
        "documents": str(meta.documents or ""),
        "model": meta.model or "",
        "dimensions": str(meta.dimensions),
    }
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows.items())


def read_meta(connection: sqlite3.Connection) -> IndexMeta:
    """Read the properties of the index. Raises UnknownFormat, sqlite3.Error for a damaged file."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone():
        raise UnknownFormat
    rows: Mapping[str, str] = dict(connection.execute("SELECT name, value FROM meta"))
    if rows.get("version") != VERSION:
        raise UnknownFormat
    with parse_rows():
        documents = Path(rows["documents"]) if rows["documents"] else None
        return IndexMeta(documents, rows["model"] or None, int(rows["dimensions"]))


def count_documents_and_passages(connection: sqlite3.Connection) -> tuple[int, int]:
    """Count the files with passages, and the passages. Raises sqlite3.Error."""
    query = "SELECT count(DISTINCT file), count(*) FROM passage"
    documents, passages = connection.execute(query).fetchone()
    return documents, passages


def add_file(
    connection: sqlite3.Connection, name: str, fingerprint: str, passages: Sequence[Source]
) -> range:
    """Add a file and its passages. Returns the keys of the passages, in order."""
    sourcefile = passages[0].sourcefile if passages else name
    insert_file = "INSERT INTO file (name, fingerprint, sourcefile) VALUES (?, ?, ?)"
    file = connection.execute(insert_file, (name, fingerprint, sourcefile)).lastrowid
    (last,) = connection.execute("SELECT coalesce(max(key), 0) FROM passage").fetchone()
    keys = range(last + 1, last + 1 + len(passages))
    _add_passages(connection, file, list(zip(keys, passages, strict=True)))
    return keys


def _add_passages(
    connection: sqlite3.Connection, file: int | None, passages: Sequence[tuple[int, Source]]
) -> None:
    rows = ((key, not (p.oids or p.groups), p.category or None, file, p.id) for key, p in passages)
    connection.executemany("INSERT INTO passage VALUES (?, ?, ?, ?, ?)", rows)
    bodies = (
        (key, p.sourcepage, json.dumps(p.oids), json.dumps(p.groups), p.content, p.heading)
        for key, p in passages
    )
    connection.executemany("INSERT INTO body VALUES (?, ?, ?, ?, ?, ?)", bodies)
    words = ((key, *map(_join_terms, (p.content, p.sourcepage, p.heading))) for key, p in passages)
    insert_words = "INSERT INTO words (rowid, body, name, heading) VALUES (?, ?, ?, ?)"
    connection.executemany(insert_words, words)
    oids = [("oid", name, key) for key, p in passages for name in set(p.oids)]
    groups = [("group", name, key) for key, p in passages for name in set(p.groups)]
    connection.executemany("INSERT INTO reader VALUES (?, ?, ?)", oids + groups)


def _join_terms(text: str) -> str:
    return " ".join(extract_terms(text))


def restricted_files(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the files with restricted passages. Raises sqlite3.Error.

    It must work on a file of any version: ingestion calls it before it rebuilds an older one.
    """
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'passage'").fetchone():
        return set()
    rows = connection.execute(
        "SELECT DISTINCT name FROM passage JOIN file ON file.key = passage.file WHERE NOT public"
    )
    return {name for (name,) in rows}


def remove_file(connection: sqlite3.Connection, name: str) -> None:
    """Remove a file and its passages, if the index has it."""
    row = connection.execute("SELECT key FROM file WHERE name = ?", (name,)).fetchone()
    if not row:  # a DELETE without matches would still make FTS5 flush its pending terms
        return
    for table, key in _KEY_COLUMNS:
        condition = f"{key} IN (SELECT key FROM passage WHERE file = ?)"
        connection.execute(f"DELETE FROM {table} WHERE {condition}", row)
    connection.execute("DELETE FROM file WHERE key = ?", row)
