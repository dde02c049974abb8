"""Which sections does a Markdown text have, and which headings stand above each of them?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shared.text.tokens import count_tokens

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_MAX_HEADING = 1000  # characters of a heading that are looked at: more fill any passage
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
    """The sections that need passages: one without text joins the next, whose lead names it.

    `limit` is the most tokens of a passage: what would fill half of it is not joined.
    """
    held: Section | None = None
    for found in _all_sections(text):
        joined = _join(held, found) if held else found
        if held and not _heading_fits(joined, limit):
            yield held
            joined = found
        held = None if text[found.body : found.end].strip() else joined
        yield from () if held else (joined,)
    yield from (held,) if held else ()


def heading_lines(section: Section, limit: int) -> str:
    """The heading path, without its outer headings where it would fill half of a passage.

    Each heading before it that has no text has a line above.
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
    """A heading's words, without the marks that may close it: `## Dental ##`."""
    title = text.strip()[:_MAX_HEADING]
    bare = title.rstrip("#")
    return bare.rstrip() if bare[-1:] in ("", " ", "\t") else title


def _join(held: Section, following: Section) -> Section:
    named = following.path[:-1][: len(held.path)] == held.path
    before = held.empty_headings if named else (*held.empty_headings, held.path)
    return replace(following, start=held.start, empty_headings=before)


def _heading_fits(section: Section, limit: int) -> bool:
    return count_tokens(_format_headings(section)) <= limit // 2


def _format_headings(section: Section) -> str:
    return "\n".join(" > ".join(path) for path in (*section.empty_headings, section.path))
