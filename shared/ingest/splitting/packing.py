"""Where is a text cut so that each part fits, and what is said again at the start of the next?

Paragraphs and tables are kept whole where they fit. Nothing here knows headings or files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from shared.ingest.splitting.boundaries import CHARACTERS, TextSpan, budget, cut
from shared.text.tokens import count_tokens

_TABLE = re.compile(r"^(?P<header>\|.*\n\|[ \t:|-]+\n)(?:\|.*(?:\n|\Z))+", re.MULTILINE)
_JOINT = 2  # tokens that white space on both sides of a border can make

# Lines of a table, and the rest of one that was cut in the middle.
_TABLE_LINES = re.compile(r"^(?:\|.*|.*\|[ \t]*)$\n?", re.MULTILINE)
# Where a sentence begins (Arabic, Hindi and Chinese have marks of their own, the last no blanks),
# a paragraph, or an item of a list.
_BEGINS = re.compile(
    r"(?:[.!?\u2026\u061F\u06D4\u0964\u0965][\"'\u2019\u201C\u201D\xBB)\]]*\s+"
    r"|[\u3002\uFF01\uFF1F][\"\u2019\u201D\u300D\u300F\uFF09]*\s*"
    r"|\n\s*\n\s*"
    r"|\n(?=\s*(?:[-*+\u2022]|\d+[.)])\s))(?=\S)"
)


def plain_parts(text: str, limit: int) -> Iterator[TextSpan]:
    """The parts of a text without form, of at most `limit` tokens."""
    whole = TextSpan(0, len(text))
    return _overlapping(text, limit, _packed(text, limit, cut(text, whole, limit, TextSplitter)))


def markdown_parts(text: str, limit: int) -> Iterator[TextSpan]:
    """The parts of a Markdown text: tables stay whole, or each part of one has its header."""
    return _overlapping(text, limit, _packed(text, limit, _units(text, limit)))


def _units(text: str, limit: int) -> Iterator[TextSpan]:
    """What parts are made of: whole tables and the rows of long ones, and the text between."""
    place = 0
    for table in _TABLE.finditer(text):
        yield from cut(text, TextSpan(place, table.start()), limit, MarkdownSplitter)
        yield from _table_units(text, table, limit)
        place = table.end()
    yield from cut(text, TextSpan(place, len(text)), limit, MarkdownSplitter)


def _table_units(text: str, table: re.Match[str], limit: int) -> Iterator[TextSpan]:
    header = count_tokens(table["header"])
    if count_tokens(table[0]) <= limit:
        yield TextSpan(*table.span(), row=True)
    elif header > limit // 2:  # Repeating it would leave no room for the rows.
        yield from cut(text, TextSpan(*table.span(), row=True), limit, MarkdownSplitter)
    else:
        for row in _rows(text, table):
            yield from cut(text, row, limit - (header if row.header else 0), TextSplitter)


def _rows(text: str, table: re.Match[str]) -> Iterator[TextSpan]:
    """The rows of a table, the first with the header above it."""
    first = text.find("\n", table.end("header")) + 1 or table.end()
    yield TextSpan(table.start(), first, row=True)
    place = first
    while place < table.end():
        end = text.find("\n", place) + 1 or table.end()
        yield TextSpan(place, end, table["header"], row=True)
        place = end


def _packed(text: str, limit: int, units: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Join neighbours as long as they fit."""
    current: TextSpan | None = None
    most = 0
    for unit in _led(text, limit, units):
        added = count_tokens(text[unit.start : unit.end]) + _JOINT
        # The sum is quick to know and rather too high: only near the limit it is counted anew.
        if current and (most + added <= limit or _fit(text, current, unit, limit)):
            current, most = replace(current, end=unit.end), most + added
        else:
            yield from (current,) if current else ()
            current, most = unit, count_tokens(unit.header) + added
    yield from (current,) if current else ()


def _led(text: str, limit: int, units: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Put a heading, or the line that announces a table, to what follows it."""
    held: TextSpan | None = None
    for unit in units:
        fits = held is not None and _fit(text, held, unit, limit)
        whole = replace(held, end=unit.end) if held and fits else unit
        yield from (held,) if held and not fits else ()
        held = whole if not whole.row and _is_short(text, whole, limit) else None
        yield from () if held else (whole,)
    yield from (held,) if held else ()


def _is_short(text: str, part: TextSpan, limit: int) -> bool:
    return count_tokens(text[part.start : part.end]) <= budget(limit)


def _fit(text: str, current: TextSpan, unit: TextSpan, limit: int) -> bool:
    return count_tokens(current.header + text[current.start : unit.end]) <= limit


def _overlapping(text: str, limit: int, parts: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Let each part begin with the last sentences of the one before it, tables excepted."""
    before: TextSpan | None = None
    for part in parts:
        if not text[part.start : part.end].strip():
            continue
        start = part.start if before is None else _start(text, before, part, limit)
        yield replace(part, start=start)
        before = part


def _start(text: str, before: TextSpan, part: TextSpan, limit: int) -> int:
    """Where a part begins with what it repeats: whole sentences, none where none fits."""
    if part.row:
        return part.start
    # A token has at most `CHARACTERS`: what is further back cannot fit.
    place = max(before.start, part.start - budget(limit) * CHARACTERS)
    region = text[place : part.start]
    floor = max((found.end() for found in _TABLE_LINES.finditer(region)), default=0)
    begins = (place + found.end() for found in _BEGINS.finditer(region, floor))
    fitting = (start for start in begins if _repeats(text, start, part, limit))
    return next(fitting, part.start)


def _repeats(text: str, start: int, part: TextSpan, limit: int) -> bool:
    short = start < part.start and count_tokens(text[start : part.start]) <= budget(limit)
    return short and count_tokens(text[start : part.end]) <= limit
