"""Text, vector and hybrid search in the embedded index, and its files that a user may see."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from math import log
from operator import itemgetter
from typing import Any

from shared.domain.events import Source
from shared.domain.messages import to_data_url
from shared.domain.overrides import DEFAULT_TOP, Overrides
from shared.domain.request import User
from shared.retrieval.base import MAX_IMAGES, FilePart, distinct
from shared.retrieval.sqlite.connections import OpenIndex
from shared.retrieval.sqlite.ranking import count_reranked, fuse, relevance, rerank
from shared.retrieval.sqlite.schema import fetch_text, parse_rows
from shared.retrieval.sqlite.vectors import Reader, Similarities
from shared.text import fts_queries, join_fts_queries, shorten_fts_query

CANDIDATES = 100  # passages of a search, of which those with the same text count once
MIN_CANDIDATES = 50  # of a search for rare terms; with fewer, all terms are searched for
MAX_RANKED = 25_000  # passages: ranking so many takes about 20 ms
NAME_WEIGHT = 2.0  # of a word in the name of the file, relative to one in the passage
HEADING_WEIGHT = 3.0  # of a word in the headings, beside the one in the passage, which repeats them

BM25_FACTOR = 2.2  # of a term's weight, which its score in a passage approaches: k1 + 1 in FTS5

# Who may see a passage. A passage has few readers, but a user may see half the index: so SQLite
# shall look up the readers of each passage. The unary pluses keep it from looking up the passages
# of each group instead.
VISIBLE = """
(public OR EXISTS (
    SELECT 1 FROM reader WHERE reader.passage = passage.key AND (
        +kind = 'oid' AND +reader.name = :oid
        OR +kind = 'group' AND +reader.name IN (SELECT value FROM json_each(:groups))
    )
))
"""
ALLOWED = f"""
{VISIBLE}
AND (:include_category IS NULL OR category = :include_category)
AND (:exclude_category IS NULL OR category IS NOT :exclude_category)
AND (:sourcefiles IS NULL OR passage.file IN (
    SELECT key FROM file WHERE sourcefile IN (SELECT value FROM json_each(:sourcefiles))
))
"""
# Only keys: the texts are read for the best passages alone. Equal scores are ordered by id, so that
# the order in which the files were indexed does not matter.
TEXT_SEARCH = f"""
SELECT passage.key, -bm25(words, 1.0, {NAME_WEIGHT}, {HEADING_WEIGHT}) AS score
FROM words JOIN passage ON passage.key = words.rowid
WHERE words MATCH :query AND {ALLOWED}
ORDER BY score DESC, id LIMIT :limit
"""
# The unary plus keeps SQLite from looking up the rows of `words` one by one.
TEXT_SEARCH_IN_RARE = TEXT_SEARCH.replace(
    "AND", "AND +words.rowid IN (SELECT rowid FROM words WHERE words MATCH :rare) AND", 1
)
COUNT_MATCHES = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
ALLOWED_KEYS = f"SELECT passage.key FROM passage WHERE {ALLOWED}"
TERMS = "SELECT body FROM words WHERE rowid = ?"
PASSAGE_ID = "SELECT id FROM passage WHERE key = ?"
PASSAGE = """
SELECT id, content, heading, sourcepage, sourcefile, category, oids, groups, picture.data
FROM passage JOIN body USING (key) JOIN file ON file.key = file
LEFT JOIN picture ON picture.passage = passage.key AND ?
WHERE passage.key = ?
"""
IS_READABLE = f"""
SELECT EXISTS (
    SELECT 1 FROM file JOIN passage ON file = file.key WHERE sourcefile = :sourcefile AND {VISIBLE}
)
"""
# The keys of a file's passages rise in the order of the file.
PASSAGES = f"""
SELECT id, content, heading, sourcepage, sourcefile, category, oids, groups, NULL
FROM file JOIN passage ON file = file.key JOIN body ON body.key = passage.key
WHERE sourcefile = :sourcefile AND {VISIBLE}
    AND (:sourcepage IS NULL OR sourcepage = :sourcepage)
ORDER BY passage.key
"""
FILES = f"""
SELECT DISTINCT sourcefile FROM file
WHERE sourcefile > :after AND EXISTS (SELECT 1 FROM passage WHERE file = file.key AND {VISIBLE})
ORDER BY sourcefile LIMIT :limit
"""

ScoredKeys = Sequence[tuple[int, float]]
"""Keys of passages with their scores, best first."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query, its user, and the options of the request."""

    user: User
    text: str
    overrides: Overrides
    sourcefiles: Sequence[str] | None = None  # None: all

    @property
    def top(self) -> int:
        """The number of passages to return."""
        return self.overrides.top or DEFAULT_TOP

    @property
    def filter_values(self) -> dict[str, Any]:
        """The values of the parameters of `ALLOWED`."""
        return {
            "include_category": self.overrides.include_category,
            "exclude_category": self.overrides.exclude_category,
            "oid": self._oid,
            "groups": json.dumps(self._groups),
            "sourcefiles": None if self.sourcefiles is None else json.dumps(self.sourcefiles),
        }

    @property
    def is_limited(self) -> bool:
        """Whether it leaves out passages that the user may see."""
        options = self.overrides.include_category, self.overrides.exclude_category
        return any(each is not None for each in (*options, self.sourcefiles))

    @property
    def readers(self) -> tuple[Reader, ...]:
        """The names by which the user may see passages that are not public."""
        groups = tuple(("group", name) for name in self._groups)
        return groups if self._oid is None else (("oid", self._oid), *groups)

    @property
    def _oid(self) -> str | None:
        return self.user.oid if self.overrides.use_oid_security_filter else None

    @property
    def _groups(self) -> tuple[str, ...]:
        uses_groups = self.overrides.use_groups_security_filter and self.user.oid
        return self.user.groups if uses_groups else ()


@dataclass(frozen=True, slots=True)
class TextScores:
    """The candidates of a text search."""

    scored: ScoredKeys
    maximum: float  # the score that a passage with all terms of the question would approach

    def shares(self) -> dict[int, float]:
        """Return the share of the maximum that each passage has."""
        return {key: score / self.maximum for key, score in self.scored}


def text_search(index: OpenIndex, query: SearchQuery) -> tuple[Source, ...]:
    """Return the best passages by BM25 and relevance feedback. Raises IndexReplaced, ChatErrors."""
    with index.connection() as connection:
        terms = fts_queries(query.text)
        # In a small index all terms are rare enough: whether they match is all that matters.
        small = index.passages * len(terms) <= MAX_RANKED
        counts = _count_matches(connection, terms, 1 if small else MAX_RANKED)
        return _read_sources(connection, _score_by_text(connection, query, counts), query)


def text_candidates(index: OpenIndex, query: SearchQuery) -> TextScores:
    """Return the candidates of the text search for a fusion. Raises as `text_search`."""
    with index.connection() as connection:
        terms = fts_queries(query.text)
        counts = _count_matches(connection, terms, MAX_RANKED)
        numbers = [*counts.values(), *[0] * (len(terms) - len(counts))]
        weights = (_term_weight(number, index.passages) for number in numbers)
        scored = _score_by_text(connection, query, counts)
        return TextScores(scored, BM25_FACTOR * sum(weights))


def compare(index: OpenIndex, query: SearchQuery, vector: Sequence[float]) -> Similarities:
    """Compare a vector with those of the passages that the user may see.

    Raises IndexReplaced, ChatErrors.
    """
    vectors = index.vectors()
    if not query.is_limited:
        return vectors.compare(vector, vectors.visible(query.readers))
    with index.connection() as connection:
        rows = connection.execute(ALLOWED_KEYS, query.filter_values)
        selected = vectors.having([key for (key,) in rows])
    return vectors.compare(vector, selected)


def vector_search(
    index: OpenIndex, query: SearchQuery, similarities: Similarities
) -> tuple[Source, ...]:
    """Return the passages nearest to a vector. Raises IndexReplaced, ChatErrors."""
    nearest = similarities.nearest(CANDIDATES)
    with index.connection() as connection:
        return _read_sources(connection, _sort_by_score(connection, nearest), query)


def hybrid_search(
    index: OpenIndex,
    query: SearchQuery,
    similarities: Similarities,
    by_text: TextScores,
    weight: float,
) -> tuple[tuple[Source, ...], float]:
    """Return the best passages by text and by a vector, and the relevance of the best.

    `weight` is that of the vector, relative to the text. Raises IndexReplaced, ChatErrors.
    """
    shares = by_text.shares()
    cosines = similarities.relative(
        [*shares.keys() | {key for key, _ in similarities.nearest(CANDIDATES)}]
    )
    with index.connection() as connection:
        scored = _sort_by_score(connection, fuse(shares, cosines, weight))
        sources = _read_sources(connection, scored, query)
    return sources, relevance(shares, cosines, len(similarities.keys))


def _score_by_text(
    connection: sqlite3.Connection, query: SearchQuery, counts: Mapping[str, int]
) -> ScoredKeys:
    """Return the best `CANDIDATES` passages; fewer if fewer match or have a rare term.

    `counts` are the terms and in how many passages each is.
    """
    if not counts:
        return ()
    rare = _rare_terms(counts)
    values = query.filter_values | {"query": join_fts_queries(counts), "limit": CANDIDATES}
    if len(rare) < len(counts):
        parameters = values | {"rare": join_fts_queries(rare)}
        scored = connection.execute(TEXT_SEARCH_IN_RARE, parameters).fetchall()
        if len(scored) >= MIN_CANDIDATES:
            return _rerank(connection, scored)
    return _rerank(connection, connection.execute(TEXT_SEARCH, values).fetchall())


def _term_weight(count: int, passages: int) -> float:
    """The weight of a term that is in `count` of the passages: its IDF, as in FTS5's bm25()."""
    return max(log((passages - count + 0.5) / (count + 0.5)), 1e-6)


def _rerank(connection: sqlite3.Connection, rows: ScoredKeys) -> ScoredKeys:
    """Re-rank the results of a search; equal scores stay in their order."""
    if not rows:
        return ()
    keys, scores = zip(*rows, strict=True)
    first = keys[: count_reranked(scores)]
    texts = [fetch_text(connection, TERMS, key) for key in first]
    reranked = zip(keys, rerank(scores, texts), strict=True)
    return sorted(reranked, key=itemgetter(1), reverse=True)


def _count_matches(
    connection: sqlite3.Connection, terms: Iterable[str], limit: int
) -> Mapping[str, int]:
    """Return the terms and in how many passages each is, at most `limit`.

    A term that is in none is replaced by the longest beginning that is in one: so a word is found
    with another ending, or misspelt.
    """
    counts = dict[str, int]()
    for term in terms:
        for query in (term, *shorten_fts_query(term)):
            (count,) = connection.execute(COUNT_MATCHES, (query, limit)).fetchone()
            if count:
                counts[query] = count
                break
    return counts


def _rare_terms(counts: Mapping[str, int]) -> list[str]:
    """Return the rarest terms, with `MAX_RANKED` matches in all at most, and at least one term.

    Ranking takes most of the time of a search, so only passages with a rare term are ranked (by all
    terms): others would hardly be among the best.
    """
    by_count = sorted(counts.items(), key=itemgetter(1))
    totals = accumulate(count for _, count in by_count)
    rare = [term for (term, _), total in zip(by_count, totals, strict=True) if total <= MAX_RANKED]
    return rare or [by_count[0][0]]


def _sort_by_score(connection: sqlite3.Connection, scored: ScoredKeys) -> ScoredKeys:
    """Sort by score, the best first; equal scores by id, as in a text search."""
    rows = ((-score, fetch_text(connection, PASSAGE_ID, key), key) for key, score in scored)
    return [(key, -negated) for negated, _, key in sorted(rows)]


def _read_sources(
    connection: sqlite3.Connection, scored: ScoredKeys, query: SearchQuery
) -> tuple[Source, ...]:
    """Read the best passages with different texts and the minimum score."""
    minimum = query.overrides.minimum_search_score
    enough = [(key, score) for key, score in scored if minimum is None or score >= minimum]
    images = MAX_IMAGES if query.overrides.includes_images else 0
    return tuple(islice(distinct(_read_each(connection, enough, images)), query.top))


def _read_each(connection: sqlite3.Connection, scored: ScoredKeys, images: int) -> Iterator[Source]:
    """Read the passages with these keys; the first `images` that have an image include it."""
    for key, score in scored:
        source = to_source(connection.execute(PASSAGE, (images > 0, key)).fetchone(), score)
        images -= source.image is not None
        yield source


def to_source(row: tuple[Any, ...], score: float | None = None) -> Source:
    """Convert a row with the columns of `PASSAGE`. Raises sqlite3.Error for a damaged one."""
    with parse_rows():
        id, content, heading, sourcepage, sourcefile, category, oids, groups, data = row
        names = (id, content, sourcepage, sourcefile, category)
        if not all(isinstance(text, str) for text in (heading, *names[:-1], category or "")):
            raise TypeError
        readers = (tuple(json.loads(oids)), tuple(json.loads(groups)))
    image = to_data_url(data) if data else None
    return Source(*names, *readers, score=score, image=image, heading=heading)


def is_readable(index: OpenIndex, query: SearchQuery, sourcefile: str) -> bool:
    """Whether the user may see any passage of a file. Raises IndexReplaced, ChatErrors."""
    with index.connection() as connection:
        values = query.filter_values | {"sourcefile": sourcefile}
        return bool(connection.execute(IS_READABLE, values).fetchone()[0])


def list_passages(
    index: OpenIndex, query: SearchQuery, sourcefile: str, part: FilePart
) -> tuple[Source, ...]:
    """Return the passages of a part of a file that the user may see.

    Raises IndexReplaced, ChatErrors.
    """
    names = {"sourcefile": sourcefile, "sourcepage": part.sourcepage}
    with index.connection() as connection:
        rows = connection.execute(PASSAGES, query.filter_values | names)
        return tuple(part.limit(map(to_source, rows)))


def list_files(index: OpenIndex, query: SearchQuery, after: str, limit: int) -> tuple[str, ...]:
    """Return the next sourcefiles after one, by code point. Raises IndexReplaced, ChatErrors."""
    with index.connection() as connection:
        values = query.filter_values | {"after": after, "limit": limit}
        return tuple(name for (name,) in connection.execute(FILES, values))
