"""The citations in an answer that comes in pieces: finds them, or numbers them.

`number_citations` is a transform of the stream: `[sourcepage]` becomes `[docN]`, wherever tokens
cut the marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from shared.domain.events import Context, Delta, Done, Events, Source, decode_path

# What a client takes for a citation by number, and what may become one at the end of a piece.
NUMBERED_CITATION = re.compile(r"\[(?P<name>doc(?P<number>\d{1,99}))\]", re.IGNORECASE)
PARTIAL_CITATION = re.compile(r"\[(?:d(?:o(?:c\d{0,99})?)?)?", re.IGNORECASE)


def sources_by_page(sources: Iterable[Source]) -> dict[str, Source]:
    """Return the first passage of each place, by the place."""
    pages: dict[str, Source] = {}
    for source in sources:
        pages.setdefault(source.sourcepage, source)
    return pages


def sources_by_name(sources: Iterable[Source]) -> dict[str, Source]:
    """Return the sources by the names that markers have: the first passage of each place.

    A model may decode what a citation has encoded: `[a[1].pdf]` for `[a%5B1%5D.pdf]`.
    """
    pages = sources_by_page(sources)
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


class CitationRewriter:
    """Rewrites the citations of an answer that comes in pieces: each `[docN]` in it is ours.

    The model is instructed to cite `[sourcepage]`. A `[docN]` that it writes is a copy, such as
    from a passage, and would cite another source: it becomes `(docN)`. Other text is unchanged:
    `[x]`, `a[0]`, `[doc9]` of three sources.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        names = sources_by_name(sources)
        # The longest first: one may begin as another does.
        longest_first = sorted(names, key=len, reverse=True)
        numbers = {name: sources.index(names[name]) + 1 for name in longest_first}
        self._replacements = {f"[{name}]": f"[doc{numbers[name]}]" for name in longest_first}
        self._markers = tuple(self._replacements)
        self._max_length = max(map(len, self._markers), default=0)
        self._number_of_sources = len(sources)
        self._pending = ""  # the end of the text, if it may become a marker

    def feed(self, text: str) -> str:
        """Take a piece; return the text that is decided by now."""
        return self._rewrite(self._pending + text, ended=False)

    def end(self) -> str:
        """Return the rest of the text at its end."""
        return self._rewrite(self._pending, ended=True)

    def _rewrite(self, text: str, ended: bool) -> str:
        decided, position, self._pending = [], 0, ""
        while (begin := text.find("[", position)) >= 0:
            decided.append(text[position:begin])
            if not ended and self._may_grow(text, begin):
                self._pending = text[begin:]
                return "".join(decided)
            marker, replacement = self._match(text, begin)
            decided.append(replacement)
            position = begin + len(marker)
        return "".join((*decided, text[position:]))

    def _may_grow(self, text: str, begin: int) -> bool:
        """Whether the text from there on may become a marker, or a longer one."""
        if PARTIAL_CITATION.fullmatch(text, begin):
            return True
        if len(text) - begin >= self._max_length:
            return False
        rest = text[begin:]
        return any(marker != rest and marker.startswith(rest) for marker in self._markers)

    def _match(self, text: str, begin: int) -> tuple[str, str]:
        """Return the marker that begins there, else the bracket alone, and its replacement."""
        if text.startswith(self._markers, begin):
            marker = next(each for each in self._markers if text.startswith(each, begin))
            return marker, self._replacements[marker]
        citation = NUMBERED_CITATION.match(text, begin)
        if citation and 1 <= int(citation["number"]) <= self._number_of_sources:
            return citation[0], f"({citation['name']})"
        return "[", "["


async def number_citations(events: Events) -> Events:
    """The same events, with sources cited by their number."""
    citations = CitationRewriter(())
    async with aclosing(events):
        try:
            async for event in events:
                match event:
                    case Context():
                        citations = CitationRewriter(event.sources)
                    case Delta(content):
                        event = replace(event, content=citations.feed(content))
                    case Done():
                        if rest := citations.end():
                            yield Delta(rest)
                yield event
        except Exception:  # what came before it is not lost
            if rest := citations.end():
                yield Delta(rest)
            raise
