"""Which passages answer a question? An index inside the app: SQLite's full-text search."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from shared.chat import Source, User
from shared.errors import Unavailable
from shared.overrides import Overrides
from shared.retrieval import Found
from shared.retrieval.notes import Done
from shared.text import TOKENIZER, match_query, terms

DEFAULT_TOP = 3
DONE = Done()  # by text, without a ranker: this index knows no other way
NAME_WEIGHT = 2.0  # of a word in the file's name, against one in the passage

SCHEMA = f"""
CREATE TABLE passage (
    key INTEGER PRIMARY KEY, category TEXT, public INTEGER NOT NULL, id TEXT NOT NULL,
    sourcepage TEXT NOT NULL, sourcefile TEXT NOT NULL, oids TEXT NOT NULL, groups TEXT NOT NULL,
    content TEXT NOT NULL
);
CREATE TABLE reader (
    kind TEXT NOT NULL, name TEXT NOT NULL, passage INTEGER NOT NULL,
    PRIMARY KEY (kind, name, passage)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(
    body, name, tokenize = "{TOKENIZER}"
);
"""

# Ranked by key first: only the text of the best is read.
QUERY = """
SELECT id, content, sourcepage, sourcefile, category, oids, groups, score
FROM (
    SELECT words.rowid AS best, -bm25(words, 1.0, :name_weight) AS score
    FROM words JOIN passage ON passage.key = words.rowid
    WHERE words MATCH :query
    AND (:include_category IS NULL OR category = :include_category)
    AND (:exclude_category IS NULL OR category IS NOT :exclude_category)
    AND (public OR key IN (
        SELECT reader.passage FROM reader WHERE kind = 'oid' AND reader.name = :oid
        UNION ALL
        SELECT reader.passage FROM json_each(:groups), reader
        WHERE kind = 'group' AND reader.name = json_each.value
    ))
    ORDER BY score DESC, best LIMIT :top
) JOIN passage ON key = best
WHERE :minimum_search_score IS NULL OR score >= :minimum_search_score
ORDER BY score DESC, best
"""


def read_passages(path: Path) -> Iterator[Source]:
    """The passages of a file of JSON Lines. Raises OSError, ValueError, KeyError."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield _source(json.loads(line))


def _source(row: Mapping[str, Any]) -> Source:
    return Source(
        id=row["id"],
        content=row["content"],
        sourcepage=row["sourcepage"],
        sourcefile=row["sourcefile"],
        category=row.get("category") or None,
        oids=tuple(row.get("oids") or ()),
        groups=tuple(row.get("groups") or ()),
    )


def create(connection: sqlite3.Connection, passages: Iterable[Source]) -> None:
    """Make the tables in an empty database and fill them. Raises sqlite3.Error."""
    connection.executescript(SCHEMA)
    with connection:
        for key, source in enumerate(passages, 1):
            _add(connection, key, source)


def _add(connection: sqlite3.Connection, key: int, source: Source) -> None:
    public = not (source.oids or source.groups)
    names = (source.id, source.sourcepage, source.sourcefile)
    readers = (json.dumps(source.oids), json.dumps(source.groups))
    row = (key, source.category, public, *names, *readers, source.content)
    words = (key, " ".join(terms(source.content)), " ".join(terms(source.sourcepage)))
    kinds = (("oid", source.oids), ("group", source.groups))
    named = ((kind, name, key) for kind, given in kinds for name in set(given))
    connection.execute("INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT INTO words (rowid, body, name) VALUES (?, ?, ?)", words)
    connection.executemany("INSERT INTO reader VALUES (?, ?, ?)", named)


class LocalIndex:
    """A Retriever that searches inside the app, by words."""

    name = "embedded"

    def __init__(self, passages: Iterable[Source]) -> None:
        """Build the index in memory. Raises what reading the passages raises."""
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = Lock()  # one connection is for one thread at a time
        self.close = weakref.finalize(self, self._connection.close)
        create(self._connection, passages)

    async def ready(self) -> None:
        """It is in memory."""

    async def search(self, user: User, query: str, overrides: Overrides) -> Found:
        """The best passages for `query` that `user` may see. Raises Unavailable."""
        # In a thread: a blocking call would hold up every other answer of this worker.
        sources = await asyncio.to_thread(self._find, user, query, overrides)
        return Found(sources, DONE.props(overrides), DONE.notes(overrides))

    def _find(self, user: User, query: str, overrides: Overrides) -> tuple[Source, ...]:
        match = match_query(query)
        if not match:
            return ()
        with _translated(), self._lock:
            rows = self._connection.execute(QUERY, _parameters(user, match, overrides)).fetchall()
        return tuple(_found(row) for row in rows)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable from error


def _parameters(user: User, match: str, overrides: Overrides) -> dict[str, Any]:
    groups = user.groups if overrides.use_groups_security_filter and user.oid else ()
    return {
        "query": match,
        "name_weight": NAME_WEIGHT,
        "top": overrides.top or DEFAULT_TOP,
        "include_category": overrides.include_category,
        "exclude_category": overrides.exclude_category,
        "minimum_search_score": overrides.minimum_search_score,
        "oid": user.oid if overrides.use_oid_security_filter else None,
        "groups": json.dumps(groups),
    }


def _found(row: tuple[Any, ...]) -> Source:
    id, content, sourcepage, sourcefile, category, oids, groups, score = row
    readers = (tuple(json.loads(oids)), tuple(json.loads(groups)))
    return Source(id, content, sourcepage, sourcefile, category, *readers, score=score)
