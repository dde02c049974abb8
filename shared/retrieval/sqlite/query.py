"""The SQL of a search in the embedded index, and the conversion of rows to Sources."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from shared.chat.events import Source
from shared.chat.image_types import to_data_url
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.retrieval.base import MAX_IMAGES

NAME_WEIGHT = 2.0  # of a word in the name of the file, relative to one in the passage

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
"""
# Only keys: the texts are read for the best passages alone. Equal scores are ordered by id, so that
# the order in which the files were indexed does not matter.
TEXT_SEARCH = f"""
SELECT passage.key, -bm25(words, 1.0, {NAME_WEIGHT}) AS score
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
HAS_RESTRICTED = "SELECT EXISTS (SELECT 1 FROM reader)"
IS_READABLE = f"""
SELECT EXISTS (
    SELECT 1 FROM file JOIN passage ON file = file.key WHERE sourcefile = :sourcefile AND {VISIBLE}
)
"""
PASSAGE_ID = "SELECT id FROM passage WHERE key = ?"
PASSAGE = """
SELECT id, content, sourcepage, sourcefile, category, oids, groups, picture.data
FROM passage JOIN body USING (key) JOIN file ON file.key = file
LEFT JOIN picture ON picture.passage = passage.key AND ?
WHERE passage.key = ?
"""


def filter_parameters(user: User, overrides: Overrides) -> dict[str, Any]:
    """Return the values of the parameters of `ALLOWED`."""
    groups = user.groups if overrides.use_groups_security_filter and user.oid else ()
    return {
        "include_category": overrides.include_category,
        "exclude_category": overrides.exclude_category,
        "oid": user.oid if overrides.use_oid_security_filter else None,
        "groups": json.dumps(groups),
    }


def allowed_keys(
    connection: sqlite3.Connection, user: User, overrides: Overrides
) -> tuple[int, ...] | None:
    """Return the keys of the passages that may be found; None if all may."""
    values = filter_parameters(user, overrides)
    filtered = values["include_category"] is not None or values["exclude_category"] is not None
    if not filtered and not connection.execute(HAS_RESTRICTED).fetchone()[0]:
        return None
    return tuple(key for (key,) in connection.execute(ALLOWED_KEYS, values))


def read_sources(
    connection: sqlite3.Connection, scored: Sequence[tuple[int, float]], overrides: Overrides
) -> tuple[Source, ...]:
    """Read the passages with these keys, without those below the minimum score.

    If the request asks for images, the first `MAX_IMAGES` passages that have one include it.
    """
    minimum, results = overrides.minimum_search_score, list[Source]()
    images_left = MAX_IMAGES if overrides.includes_images else 0
    for key, score in scored:
        if minimum is None or score >= minimum:
            row = connection.execute(PASSAGE, (images_left > 0, key)).fetchone()
            results.append(_to_source(row, score))
            images_left -= results[-1].image is not None
    return tuple(results)


def _to_source(row: tuple[Any, ...], score: float) -> Source:
    id, content, sourcepage, sourcefile, category, oids, groups, data = row
    names = (id, content, sourcepage, sourcefile, category)
    readers = (tuple(json.loads(oids)), tuple(json.loads(groups)))
    image = to_data_url(data) if data else None
    return Source(*names, *readers, score=score, image=image)
