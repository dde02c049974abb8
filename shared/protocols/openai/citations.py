"""The sources of an answer, as annotations and as the `context` of "Azure OpenAI On Your Data"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from shared.domain.events import Context, Source
from shared.domain.request import ChatRequest
from shared.http.json_encoding import Json
from shared.protocols.document_links import source_url
from shared.rag.citation_finder import Citation


def numbered_sources(context: Context) -> dict[str, Source]:
    """Return the sources by the names that markers have: `[doc1]`."""
    return {f"doc{number}": source for number, source in enumerate(context.sources, 1)}


def format_annotations(request: ChatRequest, citations: Iterable[Citation]) -> list[Json]:
    """Return OpenAI's annotations of citations, which the AI SDK shows as sources."""
    places = (url_citation(citation, request.metadata.links) for citation in citations)
    return [{"type": "url_citation", "url_citation": place} for place in places if place["url"]]


def url_citation(citation: Citation, links: str) -> Json:
    """Return the fields of an annotation of a citation by its URL."""
    source = citation.source
    return {
        "start_index": citation.start,
        "end_index": citation.end,
        "url": source_url(links, source),
        "title": source.title or source.sourcepage,
    }


def source_context(request: ChatRequest, context: Context) -> Json:
    """Return the `context` of an answer: its sources and search queries, as far as requested."""
    queries = search_queries(context)
    links, included = request.metadata.links, request.state.include_contexts
    fields: Json = {}
    if "citations" in included:
        fields["citations"] = [_citation(links, source) for source in context.sources]
    if "intent" in included:
        fields["intent"] = json.dumps(queries, ensure_ascii=False)
    if "all_retrieved_documents" in included:
        fields["all_retrieved_documents"] = _retrieved_documents(links, context, queries)
    return fields


def search_queries(context: Context) -> list[Any]:
    """Return the queries of the search."""
    return [step.description for step in context.steps if step.title == "Generated search query"]


def _citation(links: str, source: Source) -> Json:
    return {
        "content": source.content,
        "title": source.title or source.sourcepage,
        "url": source_url(links, source),
        "filepath": source.sourcefile,
        "chunk_id": source.id,
    }


def _retrieved_documents(links: str, context: Context, queries: Sequence[Any]) -> list[Json]:
    """Return each search result as its citation, with its scores and why it is not cited."""
    results: list[tuple[Source, str | None]] = [(source, None) for source in context.sources]
    results += [(each.source, each.reason) for each in context.excluded]
    return [_citation(links, each) | _scores(each, reason, queries) for each, reason in results]


def _scores(source: Source, reason: str | None, queries: Sequence[Any]) -> Json:
    return {
        "search_queries": list(queries),
        "data_source_index": 0,
        "original_search_score": source.score,
        "rerank_score": source.reranker_score,
        **({"filter_reason": reason} if reason else {}),
    }
