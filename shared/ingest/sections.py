"""Which sections does a Markdown text have, and which headings stand above each of them?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shared.tokens import count_tokens

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r" {0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading; `path` names that heading last, the ones above it first.

    It lies at `start` to `end` of the page, its heading's line included; `body` is where its own
    text begins. Where the heading above has no text, its line is part of it too.
    """

    path: tuple[str, ...]
    start: int
    body: int
    end: int


def sections(text: str, limit: int) -> Iterator[Section]:
    """The sections that need passages: an empty one does not where the next carries its headings.

    `limit` is the most tokens of a passage.
    """
    found = tuple(_sections(text))
    start = 0
    for section, following in zip(found, (*found[1:], None), strict=True):
        empty = not text[section.body : section.end].strip()
        if not (empty and following and _says(following, section, limit)):
            yield replace(section, start=start)
            start = section.end


def lead(section: Section, limit: int) -> str:
    """The heading path, without its outer headings where it would fill half of a passage."""
    path = section.path
    while path and count_tokens(" > ".join(path)) > limit // 2:
        path = path[1:]
    return " > ".join(path)


def _sections(text: str) -> Iterator[Section]:
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
    title = text.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare[-1:] in ("", " ", "\t") else title


def _says(following: Section, section: Section, limit: int) -> bool:
    below = following.path[:-1][: len(section.path)] == section.path
    return below and lead(following, limit) == " > ".join(following.path)
