"""Annotations: where the text of an answer cites a source, and which."""

from __future__ import annotations

from collections.abc import Iterable

from shared.chat.citation_paths import decode_path
from shared.chat.events import Source
from shared.http.json_encoding import Json
from shared.protocols.document_links import source_url
from shared.rag.citation_finder import Citation


def sources_by_name(sources: Iterable[Source]) -> dict[str, Source]:
    """Return the sources by the names that markers have: the first passage of each place.

    A model may decode what a citation has encoded: `[a[1].pdf]` for `[a%5B1%5D.pdf]`.
    """
    pages: dict[str, Source] = {}
    for source in sources:
        pages.setdefault(source.sourcepage, source)
    pages.pop("", None)
    return {decode_path(page): source for page, source in pages.items()} | pages


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
