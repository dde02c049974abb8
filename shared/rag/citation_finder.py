"""Finds the citations in the text of an answer, as it comes in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.domain.events import Source, decode_path


def sources_by_name(sources: Iterable[Source]) -> dict[str, Source]:
    """Return the sources by the names that markers have: the first passage of each place.

    A model may decode what a citation has encoded: `[a[1].pdf]` for `[a%5B1%5D.pdf]`.
    """
    pages: dict[str, Source] = {}
    for source in sources:
        pages.setdefault(source.sourcepage, source)
    pages.pop("", None)
    return {decode_path(page): source for page, source in pages.items()} | pages


@dataclass(frozen=True, slots=True)
class Citation:
    """A marker of the text that names a source: its place with its brackets, in characters."""

    source: Source
    start: int
    end: int


class CitationFinder:
    """Finds the markers of a text that comes in pieces, each when it is complete.

    `sources` are those that a marker may name, by the name between its brackets.
    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        # The longest first: one may begin as another does.
        names = sorted(sources, key=len, reverse=True)
        self._sources = sources
        self._pattern = re.compile("|".join(re.escape(f"[{name}]") for name in names))
        self._longest = len(names[0]) + 2 if names else 0
        self._start, self._tail = 0, ""  # the end of the text, which may begin a marker

    def feed(self, piece: str) -> list[Citation]:
        """Take a piece; return the markers that it completes."""
        if not self._sources:
            return []
        text, decided = self._tail + piece, 0
        citations: list[Citation] = []
        for match in self._pattern.finditer(text):
            start, end = self._start + match.start(), self._start + match.end()
            citations.append(Citation(self._sources[match[0][1:-1]], start, end))
            decided = match.end()
        decided = max(decided, len(text) - self._longest + 1)
        self._start, self._tail = self._start + decided, text[decided:]
        return citations
