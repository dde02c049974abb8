"""A search: its request, the hits with the fields that it asks for, and a pipeline's answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from shared.domain.errors import BadRequest, NotFound
from shared.domain.events import Source
from shared.domain.overrides import MAX_SEARCH_TEXT, Overrides
from shared.http.call import Json
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch import generation
from shared.retrieval.base import shorten_query

MAX_HITS = 50
MAX_PATTERNS, MAX_PATTERN_LENGTH = 50, 100
QUERY_FORMS = "match, query_string, match_all, or neural with a query_text"


class ParsingError(BadRequest):
    """The form of a query is not supported."""


class IndexNotFound(NotFound):
    """A search names another index than the one there is."""


@dataclass(frozen=True, slots=True)
class OpenSearchConfig:
    """What the deployment is for OpenSearch's clients."""

    index: str = "documents"  # the name of the one index


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """The fields of a hit's `_source`: those that a pattern includes and none excludes."""

    enabled: bool  # else hits have no `_source`
    includes: tuple[str, ...]
    excludes: tuple[str, ...]

    def apply(self, fields: Json) -> Json:
        """Return the fields that the filter lets through."""
        return {name: value for name, value in fields.items() if self._includes(name)}

    def _includes(self, name: str) -> bool:
        included = not self.includes or any(matches(name, each) for each in self.includes)
        return included and not any(matches(name, each) for each in self.excludes)


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern, in which only `*` is special.

    Takes linear time: patterns come from clients.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    end = len(first)  # of what has matched
    for part in middle:
        position = name.find(part, end)
        if position < 0:
            return False
        end = position + len(part)
    return name.startswith(first) and name.endswith(last, end)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search: what to look for, how many hits, which of their fields, and what to answer."""

    text: str
    size: int
    source_filter: SourceFilter
    question: generation.Question | None


async def search(exchange: Exchange) -> Json:
    """Answer a search. A model's failure stands beside the hits: clients repeat after a 503."""
    started = time.monotonic()
    index, call = exchange.app.config(OpenSearchConfig).index, exchange.call
    if call.path and call.path != index:
        raise IndexNotFound(f"no such index [{call.path}]: the index here is {index}")
    request = parse_search(exchange.body, call.query)
    question = request.question
    pipeline = await generation.find_pipeline(exchange, question)
    interactions = await generation.fetch_history(exchange, question)
    async with nullcontext() if question else exchange.app.lookups:
        sources = await _retrieve(exchange, request)
    exchange.record.record_hits(len(sources))
    answer: Json = {}
    if pipeline and question:
        used = sources[: question.context_size]
        contexts = _context_texts(used, pipeline.context_field_list)
        inputs = generation.PromptInput(pipeline, question, contexts, interactions)
        answer = await generation.generate(exchange, inputs)
    milliseconds = int((time.monotonic() - started) * 1000)
    return format_response(index, request, sources, milliseconds) | answer


async def _retrieve(exchange: Exchange, request: SearchRequest) -> tuple[Source, ...]:
    """Return the passages that the user may see."""
    if request.size == 0:
        return ()
    access, rag = exchange.app.access, exchange.rag
    user = access.get_user(exchange.call.headers)
    overrides = access.apply_filters(user, Overrides(top=request.size))
    overrides = overrides.with_defaults(rag.defaults)
    query, span = shorten_query(request.text), exchange.record.span
    result = await rag.search(user, query, overrides, span)
    exchange.record.search_tokens = result.tokens
    return result.sources


def parse_search(body: Json, query: Mapping[str, str]) -> SearchRequest:
    """Parse the body and the query parameters of a search. Raises BadRequest."""
    question = generation.parse_question(body)
    field, text = "query", _parse_query(body.get("query"))
    if text is None and "q" in query:
        field, text = "q", query["q"]
    if text is not None and len(text) > MAX_SEARCH_TEXT:
        raise BadRequest(f"{field}: must have {MAX_SEARCH_TEXT} characters at most")
    if text is None and question:
        text = question.llm_question
    if text is None:
        raise ParsingError(
            f"query: is required without {generation.EXT}.llm_question: {QUERY_FORMS}"
        )
    if _parse_whole_number("from", query.get("from", body.get("from")), 0):
        raise BadRequest("from: is not possible here: ask for a larger size")
    size = _parse_whole_number("size", query.get("size", body.get("size")), 10)
    if size > MAX_HITS:
        raise BadRequest(f"size: must be {MAX_HITS} or less")
    return SearchRequest(text, size, _parse_source_filter(body, query), question)


def _parse_query(query: Any) -> str | None:
    """Return the text to look for; None if that is the question. Raises ParsingError."""
    if query is None or query == {}:
        return None
    if not isinstance(query, Mapping) or len(query) != 1:
        raise ParsingError(f"query: must be an object with one of {QUERY_FORMS}")
    ((form, clause),) = query.items()
    fields = list(clause.values()) if isinstance(clause, Mapping) else []
    match form, clause, fields:
        case "match_all", _, _:
            return None
        case "query_string", {"query": str(text)}, _:
            return text
        case "match", _, [str(text) | {"query": str(text)}]:
            return text
        case "neural", _, [str(text) | {"query_text": str(text)}]:
            return text
    raise ParsingError(f"query: [{str(form)[:60]}] is not understood here: use {QUERY_FORMS}")


def _parse_whole_number(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRequest(f"{name}: must be a whole number, 0 or more")
    return int(text)


def _parse_source_filter(body: Json, query: Mapping[str, str]) -> SourceFilter:
    value: Any = query.get("_source", body.get("_source", True))
    enabled = True
    if value in ("true", "false", True, False):
        enabled, value = value in ("true", True), {}
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, list):
        value = {"includes": value}
    if not isinstance(value, Mapping):
        raise BadRequest("_source: must be true, false, a name, a list of names or an object")
    includes, excludes = (
        _parse_patterns(query.get(f"_source_{key}", value.get(key, value.get(key[:-1], []))))
        for key in ("includes", "excludes")  # in the body without the s, too
    )
    return SourceFilter(enabled, includes, excludes)


def _parse_patterns(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest("_source: includes and excludes must be lists of names")
    if len(names) > MAX_PATTERNS or any(len(name) > MAX_PATTERN_LENGTH for name in names):
        raise BadRequest(
            f"_source: {MAX_PATTERNS} names at most, of {MAX_PATTERN_LENGTH} characters at most"
        )
    return tuple(names)


def _context_texts(sources: Sequence[Source], names: Sequence[str]) -> list[str]:
    """Return the fields of these names of each passage, without those that it lacks."""
    texts = (fields.get(name) for fields in map(_format_source, sources) for name in names)
    return [text for text in texts if isinstance(text, str) and text]


def format_response(
    index: str, request: SearchRequest, sources: Sequence[Source], milliseconds: int
) -> Json:
    """Format an ordinary search response."""
    hits = [_format_hit(index, request.source_filter, source) for source in sources]
    scores = [source.score for source in sources if source.score is not None]
    # There may be more hits than a full page has.
    relation = "gte" if len(hits) == request.size else "eq"
    return {
        "took": milliseconds,
        "timed_out": False,
        "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
        "hits": {
            "total": {"value": len(hits), "relation": relation},
            "max_score": max(scores, default=None),
            "hits": hits,
        },
    }


def _format_hit(index: str, source_filter: SourceFilter, source: Source) -> Json:
    hit: Json = {"_index": index, "_id": source.id, "_score": source.score}
    if source_filter.enabled:
        hit["_source"] = source_filter.apply(_format_source(source))
    return hit


def _format_source(source: Source) -> Json:
    """Format a passage as a document of an index."""
    return {
        "title": source.sourcefile.rpartition("/")[2],
        "text": source.content,
        "content": source.content,
        "sourcepage": source.sourcepage,
        "sourcefile": source.sourcefile,
        "category": source.category,
    }
