"""The files of the embedded index that a user may see, and their passages."""

from __future__ import annotations

from shared.domain.events import Source
from shared.retrieval.base import FilePart
from shared.retrieval.sqlite.connections import OpenIndex
from shared.retrieval.sqlite.search import VISIBLE, SearchQuery, to_source

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
