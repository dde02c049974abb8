"""Where is a text cut so that each part fits, and what is said again at the start of the next?

Paragraphs and tables are kept whole where they fit. Nothing here knows headings or files.
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
_JOIN_TOKENS = 2  # tokens that white space on both sides of a border can make

# Lines of a table, and the rest of one that was cut in the middle.
_TABLE_LINES = re.compile(r"^(?:\|.*|.*\|[ \t]*)$\n?", re.MULTILINE)
# Where a sentence begins (Arabic, Hindi and Chinese have marks of their own, the last no blanks),
# a paragraph, or an item of a list.
_SENTENCE_START = re.compile(
    r"(?:[.!?\u2026\u061F\u06D4\u0964\u0965][\"'\u2019\u201C\u201D\xBB)\]]*\s+"
    r"|[\u3002\uFF01\uFF1F][\"\u2019\u201D\u300D\u300F\uFF09]*\s*"
    r"|\n\s*\n\s*"
    r"|\n(?=\s*(?:[-*+\u2022]|\d+[.)])\s))(?=\S)"
)


def split_plain(text: str, limit: int) -> Iterator[TextSpan]:
    """The parts of a text without form, of at most `limit` tokens."""
    whole = TextSpan(0, len(text))
    return _add_overlap(
        text, limit, _pack(text, limit, split_span(text, whole, limit, TextSplitter))
    )


def split_markdown(text: str, limit: int) -> Iterator[TextSpan]:
    """The parts of a Markdown text: tables stay whole, or each part of one has its header."""
    return _add_overlap(text, limit, _pack(text, limit, _split_units(text, limit)))


def _split_units(text: str, limit: int) -> Iterator[TextSpan]:
    """What parts are made of: whole tables and the rows of long ones, and the text between."""
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
    elif header > limit // 2:  # Repeating it would leave no room for the rows.
        yield from split_span(text, TextSpan(*table.span(), in_table=True), limit, MarkdownSplitter)
    else:
        for row in _table_rows(text, table):
            yield from split_span(text, row, limit - (header if row.header else 0), TextSplitter)


def _table_rows(text: str, table: re.Match[str]) -> Iterator[TextSpan]:
    """The rows of a table, the first with the header above it."""
    first = text.find("\n", table.end("header")) + 1 or table.end()
    yield TextSpan(table.start(), first, in_table=True)
    place = first
    while place < table.end():
        end = text.find("\n", place) + 1 or table.end()
        yield TextSpan(place, end, table["header"], in_table=True)
        place = end


def _pack(text: str, limit: int, units: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Join neighbours as long as they fit."""
    current: TextSpan | None = None
    most = 0
    for unit in _attach_headings(text, limit, units):
        added = count_tokens(text[unit.start : unit.end]) + _JOIN_TOKENS
        # The sum is quick to know and rather too high: only near the limit it is counted anew.
        if current and (most + added <= limit or _fits_with(text, current, unit, limit)):
            current, most = replace(current, end=unit.end), most + added
        else:
            yield from (current,) if current else ()
            current, most = unit, count_tokens(unit.header) + added
    yield from (current,) if current else ()


def _attach_headings(text: str, limit: int, units: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Put a heading, or the line that announces a table, to what follows it."""
    held: TextSpan | None = None
    for unit in units:
        fits = held is not None and _fits_with(text, held, unit, limit)
        whole = replace(held, end=unit.end) if held and fits else unit
        yield from (held,) if held and not fits else ()
        held = whole if not whole.in_table and _is_short(text, whole, limit) else None
        yield from () if held else (whole,)
    yield from (held,) if held else ()


def _is_short(text: str, part: TextSpan, limit: int) -> bool:
    return count_tokens(text[part.start : part.end]) <= overlap_tokens(limit)


def _fits_with(text: str, current: TextSpan, unit: TextSpan, limit: int) -> bool:
    return count_tokens(current.header + text[current.start : unit.end]) <= limit


def _add_overlap(text: str, limit: int, parts: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Let each part begin with the last sentences of the one before it, tables excepted."""
    before: TextSpan | None = None
    for part in parts:
        if not text[part.start : part.end].strip():
            continue
        start = part.start if before is None else _overlap_start(text, before, part, limit)
        yield replace(part, start=start)
        before = part


def _overlap_start(text: str, before: TextSpan, part: TextSpan, limit: int) -> int:
    """Where a part begins with what it repeats: whole sentences, none where none fits."""
    if part.in_table:
        return part.start
    # A token has at most `MAX_TOKEN_CHARACTERS`: what is further back cannot fit.
    place = max(before.start, part.start - overlap_tokens(limit) * MAX_TOKEN_CHARACTERS)
    region = text[place : part.start]
    floor = max((found.end() for found in _TABLE_LINES.finditer(region)), default=0)
    begins = (place + found.end() for found in _SENTENCE_START.finditer(region, floor))
    fitting = (start for start in begins if _can_repeat(text, start, part, limit))
    return next(fitting, part.start)


def _can_repeat(text: str, start: int, part: TextSpan, limit: int) -> bool:
    short = start < part.start and count_tokens(text[start : part.start]) <= overlap_tokens(limit)
    return short and count_tokens(text[start : part.end]) <= limit
