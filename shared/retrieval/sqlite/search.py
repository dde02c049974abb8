"""Text, vector and hybrid search in the embedded index."""

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
from shared.retrieval.sqlite.vectors import Vectors, reciprocal_rank_fusion
from shared.text.terms import fts_queries, join_fts_queries

DEFAULT_TOP = 3
FUSION_CANDIDATES = 50  # passages that each of the two searches passes to the rank fusion
MAX_RANKED = 25_000  # passages: ranking so many takes about 20 ms

ScoredKeys = Sequence[tuple[int, float]]
"""Keys of passages with their scores, best first."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query, its user, and the options of the request."""

    user: User
    text: str
    overrides: Overrides

    @property
    def top(self) -> int:
        """The number of passages to return."""
        return self.overrides.top or DEFAULT_TOP


def text_search(index: OpenIndex, query: SearchQuery) -> tuple[Source, ...]:
    """Return the best passages by BM25. Raises IndexReplaced, ChatErrors."""
    with index.connection() as connection:
        scored = _score_by_text(connection, query, query.top)
        return sql.read_sources(connection, scored, query.overrides)


def text_candidates(index: OpenIndex, query: SearchQuery) -> ScoredKeys:
    """Return the candidates of the text search for a rank fusion. Raises as `text_search`."""
    with index.connection() as connection:
        return _score_by_text(connection, query, FUSION_CANDIDATES)


def vector_search(
    index: OpenIndex, query: SearchQuery, vector: Sequence[float]
) -> tuple[Source, ...]:
    """Return the passages nearest to a vector. Raises IndexReplaced, ChatErrors."""
    with index.connection() as connection:
        scored = _score_by_vector(connection, index.vectors(connection), query, vector)
        return sql.read_sources(connection, scored[: query.top], query.overrides)


def hybrid_search(
    index: OpenIndex, query: SearchQuery, by_text: ScoredKeys, vector: Sequence[float]
) -> tuple[Source, ...]:
    """Return the best passages by fusion of both rankings. Raises IndexReplaced, ChatErrors."""
    with index.connection() as connection:
        by_vector = _score_by_vector(connection, index.vectors(connection), query, vector)
        rankings = [[key for key, _ in by_text], [key for key, _ in by_vector[:FUSION_CANDIDATES]]]
        scores = reciprocal_rank_fusion(rankings)
        best = _sort_by_score(connection, list(scores.items()))[: query.top]
        return sql.read_sources(connection, best, query.overrides)


def is_readable(index: OpenIndex, query: SearchQuery, sourcefile: str) -> bool:
    """Whether the user may see any passage of a file. Raises IndexReplaced, ChatErrors."""
    with index.connection() as connection:
        values = sql.filter_parameters(query.user, query.overrides) | {"sourcefile": sourcefile}
        return bool(connection.execute(sql.IS_READABLE, values).fetchone()[0])


def _score_by_text(connection: sqlite3.Connection, query: SearchQuery, limit: int) -> ScoredKeys:
    terms = fts_queries(query.text)
    if not terms:
        return ()
    rare = _rare_terms(connection, terms)
    values = sql.filter_parameters(query.user, query.overrides)
    values |= {"query": join_fts_queries(terms), "limit": limit}
    if len(rare) < len(terms):
        parameters = values | {"rare": join_fts_queries(rare)}
        scored = connection.execute(sql.TEXT_SEARCH_IN_RARE, parameters).fetchall()
        if len(scored) == limit:
            return scored
    return connection.execute(sql.TEXT_SEARCH, values).fetchall()


def _rare_terms(connection: sqlite3.Connection, terms: Sequence[str]) -> list[str]:
    """Return the rarest terms, with `MAX_RANKED` matches in all at most, and at least one term.

    Ranking takes most of the time of a search, so only passages with a rare term are ranked (by all
    terms): others would hardly be among the best.
    """
    counts = [
        connection.execute(sql.COUNT_MATCHES, (term, MAX_RANKED)).fetchone()[0] for term in terms
    ]
    by_count = sorted(zip(counts, terms, strict=True))
    totals = accumulate(count for count, _ in by_count)
    rare = [term for (_, term), total in zip(by_count, totals, strict=True) if total <= MAX_RANKED]
    return rare or [by_count[0][1]]


def _score_by_vector(
    connection: sqlite3.Connection, vectors: Vectors, query: SearchQuery, vector: Sequence[float]
) -> ScoredKeys:
    allowed = sql.allowed_keys(connection, query.user, query.overrides)
    nearest = vectors.nearest(vector, max(FUSION_CANDIDATES, query.top), allowed)
    return _sort_by_score(connection, nearest)


def _sort_by_score(connection: sqlite3.Connection, scored: ScoredKeys) -> ScoredKeys:
    """Sort by score, the best first; equal scores by id, as in a text search."""
    rows = (
        (-score, connection.execute(sql.PASSAGE_ID, (key,)).fetchone()[0], key)
        for key, score in scored
    )
    return [(key, -negated) for negated, _, key in sorted(rows)]
