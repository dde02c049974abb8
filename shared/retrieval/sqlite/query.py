"""Which rows of the embedded index does a search read? Its SQL, and what becomes a Source."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from shared.chat.events import Source
from shared.chat.image_types import to_data_url
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.retrieval.base import MOST_PICTURES

NAME_WEIGHT = 2.0  # of a word in the file's name, against one in the passage

# What holds for every way to a passage: who may see it, and the categories. A passage has few
# readers, but a user may see half the index: so those of each passage are read. The pluses keep
# SQLite from looking them up group by group.
SEEN = """
(public OR EXISTS (
    SELECT 1 FROM reader WHERE reader.passage = passage.key AND (
        +kind = 'oid' AND +reader.name = :oid
        OR +kind = 'group' AND +reader.name IN (SELECT value FROM json_each(:groups))
    )
))
"""
ALLOWED = f"""
{SEEN}
AND (:include_category IS NULL OR category = :include_category)
AND (:exclude_category IS NULL OR category IS NOT :exclude_category)
"""
# By key, and without the texts: only those of the best are read. The id decides between equals,
# so that the order in which files were indexed does not.
BY_WORDS = f"""
SELECT passage.key, -bm25(words, 1.0, {NAME_WEIGHT}) AS score
FROM words JOIN passage ON passage.key = words.rowid
WHERE words MATCH :query AND {ALLOWED}
ORDER BY score DESC, id LIMIT :most
"""
# The plus keeps SQLite from looking up one row of `words` after the other.
BY_WORDS_AMONG = BY_WORDS.replace(
    "AND", "AND +words.rowid IN (SELECT rowid FROM words WHERE words MATCH :among) AND", 1
)
HOW_MANY = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
ALL_ALLOWED = f"SELECT passage.key FROM passage WHERE {ALLOWED}"
ANY_HIDDEN = "SELECT EXISTS (SELECT 1 FROM reader)"
IS_READABLE = f"""
SELECT EXISTS (
    SELECT 1 FROM file JOIN passage ON file = file.key WHERE sourcefile = :sourcefile AND {SEEN}
)
"""
ID = "SELECT id FROM passage WHERE key = ?"
BODY = """
SELECT id, content, sourcepage, sourcefile, category, oids, groups, picture.data
FROM passage JOIN body USING (key) JOIN file ON file.key = file
LEFT JOIN picture ON picture.passage = passage.key AND ?
WHERE passage.key = ?
"""


def parameters(user: User, overrides: Overrides) -> dict[str, Any]:
    """Who asks and what for, as `ALLOWED` calls it."""
    groups = user.groups if overrides.use_groups_security_filter and user.oid else ()
    return {
        "include_category": overrides.include_category,
        "exclude_category": overrides.exclude_category,
        "oid": user.oid if overrides.use_oid_security_filter else None,
        "groups": json.dumps(groups),
    }


def allowed(
    connection: sqlite3.Connection, user: User, overrides: Overrides
) -> tuple[int, ...] | None:
    """The keys of the passages that may be found; None where that is all of them."""
    given = parameters(user, overrides)
    narrowed = given["include_category"] is not None or given["exclude_category"] is not None
    if not narrowed and not connection.execute(ANY_HIDDEN).fetchone()[0]:
        return None
    return tuple(key for (key,) in connection.execute(ALL_ALLOWED, given))


def sources(
    connection: sqlite3.Connection, scored: Sequence[tuple[int, float]], overrides: Overrides
) -> tuple[Source, ...]:
    """The passages with these keys and scores, but for those with a score that is too low.

    Where pictures are asked for, the first that have one have it.
    """
    least, found = overrides.minimum_search_score, list[Source]()
    pictures = MOST_PICTURES if overrides.includes_images else 0
    for key, score in scored:
        if least is None or score >= least:
            row = connection.execute(BODY, (pictures > 0, key)).fetchone()
            found.append(_source(row, score))
            pictures -= found[-1].image is not None
    return tuple(found)


def _source(row: tuple[Any, ...], score: float) -> Source:
    id, content, sourcepage, sourcefile, category, oids, groups, picture = row
    readers = (tuple(json.loads(oids)), tuple(json.loads(groups)))
    image = to_data_url(picture) if picture else None
    names = (id, content, sourcepage, sourcefile, category)
    return Source(*names, *readers, score=score, image=image)
