"""Which passages of the embedded index does a question find, and in which order?"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from shared.chat.events import Source
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.retrieval.sqlite import query as sql
from shared.retrieval.sqlite.connections import OpenIndex
from shared.retrieval.sqlite.vectors import Vectors, fused
from shared.text.terms import fts_queries, join_fts_queries

DEFAULT_TOP = 3
NEIGHBOURS = 50  # what each of the two ways gives to the fusion
RANKED = 25_000  # passages: so many cost about 20 ms

Scored = Sequence[tuple[int, float]]
"""Keys of passages with their scores, best first."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A question, and who asks it."""

    user: User
    query: str
    overrides: Overrides

    @property
    def top(self) -> int:
        """How many passages are wanted."""
        return self.overrides.top or DEFAULT_TOP


def by_words(state: OpenIndex, asked: SearchQuery) -> tuple[Source, ...]:
    """The best passages for the words of a question. Raises Replaced, ChatErrors."""
    with state.reading() as connection:
        scored = _worded(connection, asked, asked.top)
        return sql.sources(connection, scored, asked.overrides)


def worded(state: OpenIndex, asked: SearchQuery) -> Scored:
    """What the words of a question give to the fusion. Raises Replaced, ChatErrors."""
    with state.reading() as connection:
        return _worded(connection, asked, NEIGHBOURS)


def by_vector(state: OpenIndex, asked: SearchQuery, vector: Sequence[float]) -> tuple[Source, ...]:
    """The passages that are nearest in meaning. Raises Replaced, ChatErrors."""
    with state.reading() as connection:
        scored = _near(connection, state.vectors(connection), asked, vector)
        return sql.sources(connection, scored[: asked.top], asked.overrides)


def by_both(
    state: OpenIndex, asked: SearchQuery, words: Scored, vector: Sequence[float]
) -> tuple[Source, ...]:
    """The passages that both ways together find best. Raises Replaced, ChatErrors."""
    with state.reading() as connection:
        near = _near(connection, state.vectors(connection), asked, vector)
        worth = fused([[key for key, _ in ranking] for ranking in (words, near[:NEIGHBOURS])])
        best = _in_order(connection, list(worth.items()))[: asked.top]
        return sql.sources(connection, best, asked.overrides)


def is_readable(state: OpenIndex, asked: SearchQuery, sourcefile: str) -> bool:
    """Whether who asks may see any passage of a file. Raises Replaced, ChatErrors."""
    with state.reading() as connection:
        given = sql.parameters(asked.user, asked.overrides) | {"sourcefile": sourcefile}
        return bool(connection.execute(sql.IS_READABLE, given).fetchone()[0])


def _worded(connection: sqlite3.Connection, asked: SearchQuery, most: int) -> Scored:
    queries = fts_queries(asked.query)
    if not queries:
        return ()
    rare = _rare(connection, queries)
    given = sql.parameters(asked.user, asked.overrides) | {
        "query": join_fts_queries(queries),
        "most": most,
    }
    if len(rare) < len(queries):
        scored = connection.execute(
            sql.BY_WORDS_AMONG, given | {"among": join_fts_queries(rare)}
        ).fetchall()
        if len(scored) == most:
            return scored
    return connection.execute(sql.BY_WORDS, given).fetchall()


def _rare(connection: sqlite3.Connection, queries: Sequence[str]) -> list[str]:
    """The terms that the fewest passages have, as many as have `RANKED` passages together.

    Only their passages are ranked (by all terms): a passage that has none of them, but words that
    are everywhere, would hardly be among the best, and the ranking is what takes the time.
    """
    having = [connection.execute(sql.HOW_MANY, (query, RANKED)).fetchone()[0] for query in queries]
    by_number = sorted(zip(having, queries, strict=True))
    together = accumulate(number for number, _ in by_number)
    within = [query for (_, query), sum in zip(by_number, together, strict=True) if sum <= RANKED]
    return within or [by_number[0][1]]


def _near(
    connection: sqlite3.Connection, vectors: Vectors, asked: SearchQuery, vector: Sequence[float]
) -> Scored:
    allowed = sql.allowed(connection, asked.user, asked.overrides)
    return _in_order(connection, vectors.nearest(vector, max(NEIGHBOURS, asked.top), allowed))


def _in_order(connection: sqlite3.Connection, scored: Scored) -> Scored:
    """Best first. The id decides between equals, as in a search by words."""
    named = (
        (-score, connection.execute(sql.ID, (key,)).fetchone()[0], key) for key, score in scored
    )
    return [(key, -worse) for worse, _, key in sorted(named)]
