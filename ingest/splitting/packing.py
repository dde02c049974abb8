"""Splits a text at its headings, and into overlapping parts of limited size.

Paragraphs and tables are not split where they fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from shared.text import count_tokens

_Splitter = type[TextSplitter] | type[MarkdownSplitter]

OVERLAP_RATIO = 0.15
"""The largest share of a part that repeats the end of the previous one."""

MAX_TOKEN_CHARACTERS = 3  # of a token, at most
_BLOCK_CHARACTERS = 6_000
"""Characters per call of the splitter, whose time is quadratic in the length of a line."""

# Where a block may end, in order of preference.
_BLOCK_ENDS = ("\n\n", "\n", ". ", "\u0964", "\u3002", " ")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text."""

    start: int
    end: int
    header: str = ""  # of a table, to be repeated above the part
    in_table: bool = False  # it begins in a table


def split_text(text: str, limit: int) -> tuple[str, ...]:
    """Split a text into chunks of at most `limit` tokens; joined, they are the text."""
    return tuple(TextSplitter.from_callback(count_tokens, limit, trim=False).chunks(text))


def split_span(text: str, span: TextSpan, limit: int, splitter: _Splitter) -> Iterator[TextSpan]:
    """Split a span that exceeds `limit` tokens; the parts leave room for the overlap."""
    if _fits(text[span.start : span.end], limit):
        yield span
        return
    cutter = splitter.from_callback(count_tokens, max(1, limit - overlap_tokens(limit)), trim=False)
    for block in _split_blocks(text, span):
        for offset, piece in cutter.chunk_indices(text[block.start : block.end]):
            start = block.start + offset
            yield replace(span, start=start, end=start + len(piece))


def _split_blocks(text: str, span: TextSpan) -> Iterator[TextSpan]:
    """Split a long span into blocks, each at the best boundary in its second half."""
    start = span.start
    while span.end - start > _BLOCK_CHARACTERS:
        half, most = start + _BLOCK_CHARACTERS // 2, start + _BLOCK_CHARACTERS
        places = (text.rfind(mark, half, most) + len(mark) for mark in _BLOCK_ENDS)
        end = next((place for place in places if place > half), most)
        yield replace(span, start=start, end=end)
        start = end
    yield replace(span, start=start)


def _fits(text: str, limit: int) -> bool:
    # A long text need not be counted, as the characters of a token are limited.
    return len(text) <= limit * MAX_TOKEN_CHARACTERS and count_tokens(text) <= limit


def overlap_tokens(limit: int) -> int:
    """The number of tokens that a part may repeat."""
    return int(limit * OVERLAP_RATIO)


_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_MAX_HEADING = 1000  # characters of a heading that are used: more would fill any passage
_FENCE = re.compile(r" {0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading, as offsets in the page."""

    path: tuple[str, ...]  # the headings above it, outermost first
    start: int  # of the heading's line
    body: int  # where the section's own text begins
    end: int
    # The paths of preceding headings without text that are not part of `path`
    empty_headings: tuple[tuple[str, ...], ...] = ()


def split_sections(text: str, limit: int) -> Iterator[Section]:
    """Split a text into sections; one without text is joined with the next.

    `limit` is the limit of a passage's tokens: headings beyond half of it are not joined.
    """
    pending: Section | None = None
    for section in _all_sections(text):
        joined = _join(pending, section) if pending else section
        if pending and not _heading_fits(joined, limit):
            yield pending
            joined = section
        pending = None if text[section.body : section.end].strip() else joined
        if pending is None:
            yield joined
    if pending:
        yield pending


def add_title(title: str, section: Section) -> Section:
    """Put a page's title above the headings of a section, unless it is one of them."""
    if not title or title in section.path:
        return section
    return replace(section, path=(title, *section.path))


def heading_lines(section: Section, limit: int) -> str:
    """The heading path, shortened from the outside where it would fill half of a passage.

    Each preceding heading without text has its own line above.
    """
    while section.path and not _heading_fits(section, limit):
        section = replace(section, path=section.path[1:])
    return _format_headings(section)


def _all_sections(text: str) -> Iterator[Section]:
    path: tuple[tuple[int, str], ...] = ()
    start = body = place = 0
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (heading := _HEADING.match(line)):
            yield Section(tuple(title for _, title in path), start, body, place)
            level = len(heading[1])
            path = (*(above for above in path if above[0] < level), (level, _title(heading[2])))
            start, body = place, place + len(line)
        place += len(line)
    yield Section(tuple(title for _, title in path), start, body, place)


def _title(text: str) -> str:
    """A heading's text without the closing marks of `## Dental ##`."""
    title = text.strip()[:_MAX_HEADING]
    bare = title.rstrip("#")
    return bare.rstrip() if bare[-1:] in ("", " ", "\t") else title


def _join(empty: Section, following: Section) -> Section:
    is_parent = following.path[:-1][: len(empty.path)] == empty.path
    headings = empty.empty_headings if is_parent else (*empty.empty_headings, empty.path)
    return replace(following, start=empty.start, empty_headings=headings)


def _heading_fits(section: Section, limit: int) -> bool:
    return count_tokens(_format_headings(section)) <= limit // 2


def _format_headings(section: Section) -> str:
    return "\n".join(" > ".join(path) for path in (*section.empty_headings, section.path))


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
    units = split_span(text, TextSpan(0, len(text)), limit, TextSplitter)
    return _add_overlap(text, limit, _pack(text, limit, units))


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
            if current:
                yield current
            current, estimate = unit, count_tokens(unit.header) + added
    if current:
        yield current


def _attach_headings(text: str, limit: int, units: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Join a heading, or the line that introduces a table, with the unit that follows it."""
    pending: TextSpan | None = None
    for unit in units:
        joined = unit
        if pending and _fits_with(text, pending, unit, limit):
            joined = replace(pending, end=unit.end)
        elif pending:
            yield pending
        pending = joined if not joined.in_table and _is_short(text, joined, limit) else None
        if pending is None:
            yield joined
    if pending:
        yield pending


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
