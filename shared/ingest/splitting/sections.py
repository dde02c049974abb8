"""Splits Markdown into sections with the path of their headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shared.text.tokens import count_tokens

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_MAX_HEADING = 1000  # characters of a heading that are used: more would fill any passage
_FENCE = re.compile(r" {0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading; `path` holds the headings above it, outermost first.

    `start` and `end` are offsets in the page, the heading's line included; `body` is where the
    section's own text begins. Preceding headings without text belong to it: `empty_headings` are
    the paths of those that are not part of `path`.
    """

    path: tuple[str, ...]
    start: int
    body: int
    end: int
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
        yield from () if pending else (joined,)
    yield from (pending,) if pending else ()


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
