"""Annotations: where the text of an answer cites a source, and which."""

from __future__ import annotations

from shared.http.json_encoding import Json
from shared.protocols.openai.citations import url_citation
from shared.rag.citation_finder import Citation


def annotation(citation: Citation, links: str, searches: bool) -> Json:
    """Return the annotation of a citation: of the file where the search is a tool of the request,
    else of its URL."""
    if searches:
        return {
            "type": "file_citation",
            "index": citation.start,
            "file_id": citation.source.id,
            "filename": citation.source.sourcefile,
        }
    return {"type": "url_citation", **url_citation(citation, links)}
