"""Splits a text into overlapping parts of limited size.

Paragraphs and tables are not split where they fit. Headings and files are handled elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from shared.ingest.splitting.boundaries import (
    MAX_TOKEN_CHARACTERS,
    TextSpan,
    overlap_tokens,
    split_span,
)
from shared.text.tokens import count_tokens

_TABLE = re.compile(r"^(?P<header>\|.*\n\|[ \t:|-]+\n)(?:\|.*(?:\n|\Z))+", re.MULTILINE)
_JOIN_TOKENS = 2  # tokens that white space at both sides of a boundary can add

# Lines of a table, also of one whose beginning was cut off.
_TABLE_LINES = re.compile(r"^(?:\|.*|.*\|[ \t]*)$\n?", re.MULTILINE)
# The start of a sentence, a paragraph or a list item. Arabic, Hindi and Chinese have their own
# punctuation, and Chinese no spaces.
_SENTENCE_START = re.compile(
    r"(?:[.!?\u2026\u061F\u06D4\u0964\u0965][\"'\u2019\u201C\u201D\xBB)\]]*\s+"
    r"|[\u3002\uFF01\uFF1F][\"\u2019\u201D\u300D\u300F\uFF09]*\s*"
    r"|\n\s*\n\s*"
    r"|\n(?=\s*(?:[-*+\u2022]|\d+[.)])\s))(?=\S)"
)


def split_plain(text: str, limit: int) -> Iterator[TextSpan]:
    """Split plain text into parts of at most `limit` tokens."""
    whole = TextSpan(0, len(text))
    return _add_overlap(
        text, limit, _pack(text, limit, split_span(text, whole, limit, TextSplitter))
    )


def split_markdown(text: str, limit: int) -> Iterator[TextSpan]:
    """Split Markdown; the header of a table is repeated in each part of it."""
    return _add_overlap(text, limit, _pack(text, limit, _split_units(text, limit)))


def _split_units(text: str, limit: int) -> Iterator[TextSpan]:
    """Yield the units of packing: whole tables, rows of long ones, and the text between."""
    place = 0
    for table in _TABLE.finditer(text):
        yield from split_span(text, TextSpan(place, table.start()), limit, MarkdownSplitter)
        yield from _table_units(text, table, limit)
        place = table.end()
    yield from split_span(text, TextSpan(place, len(text)), limit, MarkdownSplitter)


def _table_units(text: str, table: re.Match[str], limit: int) -> Iterator[TextSpan]:
    header = count_tokens(table["header"])
    if count_tokens(table[0]) <= limit:
        yield TextSpan(*table.span(), in_table=True)
    elif header > limit // 2:  # Repeated, it would leave no room for the rows.
        yield from split_span(text, TextSpan(*table.span(), in_table=True), limit, MarkdownSplitter)
    else:
        for row in _table_rows(text, table):
            yield from split_span(text, row, limit - (header if row.header else 0), TextSplitter)


def _table_rows(text: str, table: re.Match[str]) -> Iterator[TextSpan]:
    """Yield the rows of a table; the first includes the header."""
    first = text.find("\n", table.end("header")) + 1 or table.end()
    yield TextSpan(table.start(), first, in_table=True)
    place = first
    while place < table.end():
        end = text.find("\n", place) + 1 or table.end()
        yield TextSpan(place, end, table["header"], in_table=True)
        place = end


def _pack(text: str, limit: int, units: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Join consecutive units as long as they fit."""
    current: TextSpan | None = None
    estimate = 0
    for unit in _attach_headings(text, limit, units):
        added = count_tokens(text[unit.start : unit.end]) + _JOIN_TOKENS
        # The sum is an upper bound: tokens are counted exactly only near the limit.
        if current and (estimate + added <= limit or _fits_with(text, current, unit, limit)):
            current, estimate = replace(current, end=unit.end), estimate + added
        else:
            yield from (current,) if current else ()
            current, estimate = unit, count_tokens(unit.header) + added
    yield from (current,) if current else ()


def _attach_headings(text: str, limit: int, units: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Join a heading, or the line that introduces a table, with the unit that follows it."""
    pending: TextSpan | None = None
    for unit in units:
        fits = pending is not None and _fits_with(text, pending, unit, limit)
        joined = replace(pending, end=unit.end) if pending and fits else unit
        yield from (pending,) if pending and not fits else ()
        pending = joined if not joined.in_table and _is_short(text, joined, limit) else None
        yield from () if pending else (joined,)
    yield from (pending,) if pending else ()


def _is_short(text: str, part: TextSpan, limit: int) -> bool:
    return count_tokens(text[part.start : part.end]) <= overlap_tokens(limit)


def _fits_with(text: str, current: TextSpan, unit: TextSpan, limit: int) -> bool:
    return count_tokens(current.header + text[current.start : unit.end]) <= limit


def _add_overlap(text: str, limit: int, parts: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Start each part with the last sentences of the previous one, except in tables."""
    previous: TextSpan | None = None
    for part in parts:
        if not text[part.start : part.end].strip():
            continue
        start = part.start if previous is None else _overlap_start(text, previous, part, limit)
        yield replace(part, start=start)
        previous = part


def _overlap_start(text: str, previous: TextSpan, part: TextSpan, limit: int) -> int:
    """Where a part starts with the overlap: whole sentences, or none where none fits."""
    if part.in_table:
        return part.start
    # The characters of a token are limited, so text further back cannot fit.
    place = max(previous.start, part.start - overlap_tokens(limit) * MAX_TOKEN_CHARACTERS)
    region = text[place : part.start]
    floor = max((match.end() for match in _TABLE_LINES.finditer(region)), default=0)
    starts = (place + match.end() for match in _SENTENCE_START.finditer(region, floor))
    fitting = (start for start in starts if _can_repeat(text, start, part, limit))
    return next(fitting, part.start)


def _can_repeat(text: str, start: int, part: TextSpan, limit: int) -> bool:
    short = start < part.start and count_tokens(text[start : part.start]) <= overlap_tokens(limit)
    return short and count_tokens(text[start : part.end]) <= limit
