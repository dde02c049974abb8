"""Annotations: where the text of an answer cites a source, and which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.chat.events import Source
from shared.http.json_encoding import Json
from shared.protocols.document_links import source_url

MARKER = re.compile(r"\[([^\[\]]+)\]")  # the names of places have their brackets encoded
MAX_MARKER = 4096  # characters


@dataclass(frozen=True, slots=True)
class Citation:
    """A marker `[sourcepage]` of the text, with its brackets: its place in characters."""

    source: Source
    start: int
    end: int


@dataclass(slots=True)
class CitationFinder:
    """Finds the markers of a text that comes in pieces, each when it is complete.

    A marker that names no source is none.
    """

    pages: Mapping[str, Source]
    text: str = ""
    position: int = 0  # before it nothing is left to find

    def feed(self, piece: str) -> Iterator[Citation]:
        """Take a piece; yield the markers that it completes."""
        self.text += piece
        for match in MARKER.finditer(self.text, self.position):
            self.position = match.end()
            if source := self.pages.get(match[1]):
                yield Citation(source, *match.span())
        # Only the last bracket may still become a marker.
        begin = self.text.rfind("[", self.position)
        is_marker = 0 <= len(self.text) - begin <= MAX_MARKER
        self.position = begin if begin >= 0 and is_marker else len(self.text)


def sources_by_page(sources: Iterable[Source]) -> dict[str, Source]:
    """Return the first source of each place that can be cited."""
    pages: dict[str, Source] = {}
    for source in sources:
        pages.setdefault(source.sourcepage, source)
    return pages


def find_citations(sources: Sequence[Source], text: str) -> list[Citation]:
    """Return the citations of a whole text."""
    return list(CitationFinder(sources_by_page(sources)).feed(text))


def annotation(citation: Citation, links: str, searches: bool) -> Json:
    """Return the annotation of a citation: of the file where the search is a tool of the request,
    else of its URL."""
    source = citation.source
    if searches:
        return {
            "type": "file_citation",
            "index": citation.start,
            "file_id": source.id,
            "filename": source.sourcefile,
        }
    return {
        "type": "url_citation",
        "start_index": citation.start,
        "end_index": citation.end,
        "url": source_url(links, source),
        "title": source.title or source.sourcepage,
    }
