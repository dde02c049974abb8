"""Annotations: where the text of an answer cites a source, and which."""

from __future__ import annotations

from shared.http.json_encoding import Json
from shared.protocols.document_links import source_url
from shared.rag.citation_finder import Citation


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
