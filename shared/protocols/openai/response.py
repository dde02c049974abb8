"""Responses of OpenAI's chat completions, and the list of the models."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from shared.domain import errors
from shared.domain.events import (
    Answer,
    Context,
    Delta,
    Done,
    Event,
    Events,
    Source,
    Usage,
)
from shared.domain.messages import Message, tool_call_json
from shared.domain.request import ChatRequest
from shared.http.call import EVENTS, Json, server_sent_event
from shared.protocols import context_json
from shared.protocols.context_json import source_url
from shared.protocols.handler import ChatProtocol, Stream, encode_events
from shared.protocols.message_json import format_call_part
from shared.protocols.openai import data_sources
from shared.protocols.openai.request import FieldError, parse
from shared.rag.citations import Citation, CitationFinder
from shared.rag.passthrough import PASSTHROUGH
from shared.text import count_tokens

INVALID_REQUEST = "invalid_request_error"
# OpenAI's type and code of our errors, the first match; without one the status decides.
KINDS: Sequence[tuple[type[errors.ChatError], str, str | None]] = (
    (errors.ContentFiltered, INVALID_REQUEST, "content_filter"),
    (errors.TooLong, INVALID_REQUEST, "context_length_exceeded"),
    (errors.NoSuchModel, INVALID_REQUEST, "model_not_found"),
    (errors.NoSuchRoute, INVALID_REQUEST, "unknown_url"),
    (errors.Unauthorized, "authentication_error", "invalid_api_key"),
    (errors.Forbidden, "permission_error", None),
    (errors.TooManyRequests, "rate_limit_error", "rate_limit_exceeded"),
)
END = b"data: [DONE]\n\n"


def _is_rejected(failure: errors.ChatError, body: Any) -> bool:
    """Return whether the model rejected the client's request, for a reason without a name of ours.

    A rejected parameter that the client did not send is no error of the client.
    """
    if isinstance(failure, errors.ContentFiltered | errors.TooLong):
        return False
    is_clients = isinstance(body, dict) and body.get(failure.upstream_param or "") is not None
    return (
        failure.from_model
        and failure.upstream_status in (400, 422)
        and (not failure.upstream_param or is_clients)
    )


def status(failure: errors.ChatError, body: Any = None) -> int:
    """Return the HTTP status: 400 for what the model rejected."""
    return 400 if _is_rejected(failure, body) else failure.status


def headers(failure: errors.ChatError) -> Mapping[str, str]:
    """Return the headers: OpenAI's clients repeat a request after any 5xx, at a cost."""
    if isinstance(failure, errors.DeadlineExceeded | errors.Misconfigured):
        return {**failure.headers, "x-should-retry": "false"}
    return failure.headers


def write_error(failure: errors.ChatError, body: Any = None) -> Json:
    """Return the JSON of an error."""
    if _is_rejected(failure, body):
        return _rejection(failure.upstream_param)
    param = failure.field
    if not isinstance(failure, FieldError):
        param = data_sources.path(failure.field)
    message = f"{param}: {failure.message}" if param else failure.message
    if isinstance(failure, errors.NoSuchModel):
        message, param = f"{message} GET /v1/models lists what there is.", "model"
    default = (INVALID_REQUEST if failure.status < 500 else "server_error", None)
    matches = ((kind, code) for type_, kind, code in KINDS if isinstance(failure, type_))
    return _error(message, param, *next(matches, default))


def _rejection(param: str | None) -> Json:
    message = "The model did not accept the request."
    if param:
        message = f"{param}: the model did not accept it."
    return _error(message, param, INVALID_REQUEST)


def _error(message: str, param: str | None, kind: str, code: str | None = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def write_answer(request: ChatRequest, result: Answer) -> Json:
    """Return the JSON of an answer: a `chat.completion`."""
    calls = [tool_call_json(call) for call in result.tool_calls]
    content = result.content + link_definitions(request, result)
    message: Json = {"role": "assistant", "content": content or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    message["context"] = source_context(request, result.context)
    if annotations := _annotations(request, result):
        message["annotations"] = annotations
    choice = {"index": 0, "message": message, "finish_reason": result.done.finish_reason}
    whole = _envelope(request, result.context, "chat.completion", [choice])
    return whole | {"usage": count_usage(result.context, result.done, result.content)}


def write_chunk(request: ChatRequest, context: Context, event: Event) -> Json | None:
    """Return a chunk of a stream. Only the first has a `context`, which clients look for."""
    reason: str | None = None
    match event:
        case Context():
            delta: Json = {"role": "assistant", "context": source_context(request, event)}
        case Delta("", ()):
            return None
        case Delta(content, calls):
            delta = {"content": content} if content else {}
            if calls:
                delta["tool_calls"] = [format_call_part(call) for call in calls]
        case Done():
            delta, reason = {}, event.finish_reason
    return _chunk(request, context, delta, reason)


def _chunk(request: ChatRequest, context: Context, delta: Json, reason: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _envelope(request, context, "chat.completion.chunk", [choice])


def write_stream(request: ChatRequest, events: Events) -> Stream:
    """Encode a stream as server-sent events with a trailer, an error too."""
    parts: list[str] = []

    def encode(context: Context, event: Event) -> bytes:
        if isinstance(event, Delta):
            parts.append(event.content)
        value = write_chunk(request, context, event)
        line = b"" if value is None else server_sent_event(value)
        if isinstance(event, Done):
            result = Answer(context, "".join(parts), event)
            ahead = _links_chunk(request, result) + _annotations_chunk(request, result)
            return b"".join((ahead, line, *_trailer(request, result)))
        return line

    return Stream(encode_events(events, encode), server_sent_event)


def _links_chunk(request: ChatRequest, result: Answer) -> bytes:
    """Return a chunk with the links of an answer's citations; empty without any."""
    text = link_definitions(request, result)
    return server_sent_event(_chunk(request, result.context, {"content": text})) if text else b""


def _annotations_chunk(request: ChatRequest, result: Answer) -> bytes:
    """Return a chunk with the annotations of an answer; empty without any.

    They are in one delta: OpenAI's npm package keeps those of the last one only.
    """
    annotations = [{"index": i, **each} for i, each in enumerate(_annotations(request, result))]
    if not annotations:
        return b""
    return server_sent_event(_chunk(request, result.context, {"annotations": annotations}))


def _trailer(request: ChatRequest, result: Answer) -> list[bytes]:
    """Return the lines after the last chunk: the usage, if requested, and the end marker."""
    if not request.state.include_usage:
        return [END]
    last = _envelope(request, result.context, "chat.completion.chunk", [])
    usage = {"usage": count_usage(result.context, result.done, result.content)}
    return [server_sent_event(last | usage), END]


def _envelope(request: ChatRequest, context: Context, kind: str, choices: list[Json]) -> Json:
    return {
        "id": f"chatcmpl-{request.metadata.id}",
        "object": kind,
        "created": request.metadata.created,
        "model": context.model,
        "choices": choices,
    }


def count_usage(context: Context, done: Done, text: str) -> Json:
    """Return the token counts of the model, else an estimate."""
    tokens = done.usage or _estimate_usage(context, text)
    details: Json = {}
    if tokens.cached_tokens:
        details["prompt_tokens_details"] = {"cached_tokens": tokens.cached_tokens}
    if tokens.reasoning_tokens:
        details["completion_tokens_details"] = {"reasoning_tokens": tokens.reasoning_tokens}
    return context_json.usage(tokens) | details


def _estimate_usage(context: Context, text: str) -> Usage:
    prompt = [
        part for step in context.steps for part in step.description if isinstance(part, Message)
    ]
    return Usage(sum(count_tokens(message.content) for message in prompt), count_tokens(text))


def format_model(name: str, owner: str) -> Json:
    """Return the JSON of a model."""
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}


def format_models(owners: Mapping[str, str]) -> Json:
    """Return the JSON of all models."""
    return {"object": "list", "data": [format_model(name, owner) for name, owner in owners.items()]}


CHAT = ChatProtocol(
    name="openai",
    media_type=EVENTS,
    parse=parse,
    write_answer=write_answer,
    write_stream=write_stream,
    prompt_builder=PASSTHROUGH,
    write_error=write_error,
    status=status,
    headers=headers,
)


def _find_citations(result: Answer) -> list[Citation]:
    sources = {f"doc{number}": each for number, each in enumerate(result.context.sources, 1)}
    return CitationFinder(sources).feed(result.content)


def link_definitions(request: ChatRequest, result: Answer) -> str:
    """Return the definitions that make links of the citations `[doc1]` in Markdown, if requested.

    They stand behind the text, where nothing of them is displayed.
    """
    if not request.state.links_citations:
        return ""
    links, urls = request.metadata.links, dict[str, str]()
    for each in _find_citations(result):
        url = source_url(links, each.source)
        # An index may have any address: nothing of it may end the link.
        urls[result.content[each.start : each.end]] = re.sub(r"[\s<>]", lambda m: quote(m[0]), url)
    lines = (f"\n{marker}: <{url}>" for marker, url in urls.items() if url)
    text = "".join(lines)
    return f"\n{text}" if text else ""


def _annotations(request: ChatRequest, result: Answer) -> list[Json]:
    """Return OpenAI's annotations of the citations `[doc1]`, which the AI SDK shows as sources."""
    citations = _find_citations(result)
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
