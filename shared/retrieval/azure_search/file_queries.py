"""Builds the queries for the passages of one file, and sorts the passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.domain.events import Source, decode_path
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.index_fields import IndexFields, quote, security_filter

PAGE_SIZE = 1000  # the service's limit of one search

_NUMBER = re.compile(r"[0-9]+")
_PHRASE_RESERVED = re.compile(r'["\\]')

Query = dict[str, Any]


def stored_name(fields: IndexFields, sourcefile: str) -> str:
    """Return the name that an index stores: only the app's own are encoded as in a citation."""
    return sourcefile if fields.is_own_schema else decode_path(sourcefile)


def filter_by_file(fields: IndexFields, user: User, name: str, overrides: Overrides) -> Query:
    """Return the query for the passages of the file with a stored name that `user` may see."""
    conditions = security_filter(fields, user, overrides), f"{fields.sourcefile} eq {quote(name)}"
    return {"search": "*", "filter": " and ".join(filter(None, conditions))}


def file_queries(
    fields: IndexFields, user: User, name: str, overrides: Overrides
) -> Iterator[Query]:
    """Yield queries for the passages of a file; the second is for indexes of other tools.

    Their sourcefile need not be filterable, and a web page may have a title only: so the name is
    searched for as a phrase, which other files may contain, too.
    """
    more = {"select": ",".join(fields.select_fields()), "top": PAGE_SIZE}
    yield filter_by_file(fields, user, name, overrides) | more
    if not fields.is_own_schema:
        phrase = _PHRASE_RESERVED.sub(r"\\\g<0>", name)
        names = dict.fromkeys(filter(None, (fields.sourcefile, fields.title)))
        condition = security_filter(fields, user, overrides)
        yield {
            "search": f'"{phrase}"',
            "searchFields": ",".join(names),
            **({"filter": condition} if condition else {}),
            **more,
        }


def to_passages(
    fields: IndexFields, hits: Sequence[Mapping[str, Any]], name: str
) -> tuple[Source, ...]:
    """Return the hits that are passages of a file, each once, in the order of the file."""
    sources = {source.id: source for source in map(fields.to_source, hits)}
    passages = (source for source in sources.values() if source.sourcefile == name)
    return tuple(replace(source, score=None) for source in sorted(passages, key=_position))


def _position(source: Source) -> tuple[str, str]:
    """The sort key of a passage in its file: its page or chunk, then its id."""
    return _pad_numbers(source.sourcepage), _pad_numbers(source.id)


def _pad_numbers(text: str) -> str:
    """Pad the numbers of a text, so that texts sort by them: `p2` before `p10`."""
    return _NUMBER.sub(lambda match: match[0].zfill(20), text)
