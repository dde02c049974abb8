"""OpenAI's chat completions: answers and chunks, with the sources where "Azure OpenAI On Your Data"
had them, and the models that there are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from shared.chat.citation_paths import encode_path
from shared.chat.content_parts import tool_call_json
from shared.chat.errors import (
    BadRequest,
    ChatError,
    ContentFiltered,
    DeadlineExceeded,
    Forbidden,
    MethodNotAllowed,
    Misconfigured,
    NoSuchModel,
    NotFound,
    TooLarge,
    TooLong,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
)
from shared.chat.events import Answer, Context, Delta, Done, Event, Events, Source
from shared.chat.messages import Message
from shared.chat.request import ChatRequest
from shared.http.call import ByteStream
from shared.http.json_encoding import Json, server_sent_event
from shared.protocols import context_json, tool_calls
from shared.protocols.chat import ChatProtocol, streams_by_body
from shared.protocols.openai import data_sources, request
from shared.protocols.streams import LateError, end_with_error
from shared.rag.passthrough_prompt import PASSTHROUGH
from shared.text.tokens import count_tokens

# OpenAI's names for our failures, their type and their code; the first that fits.
KINDS: Sequence[tuple[type[ChatError], str, str | None]] = (
    (ContentFiltered, "invalid_request_error", "content_filter"),
    (TooLong, "invalid_request_error", "context_length_exceeded"),
    (NoSuchModel, "invalid_request_error", "model_not_found"),
    (Unauthorized, "authentication_error", "invalid_api_key"),
    (Forbidden, "permission_error", None),
    (TooManyRequests, "rate_limit_error", "rate_limit_exceeded"),
    (BadRequest, "invalid_request_error", None),
    (NotFound, "invalid_request_error", None),
    (MethodNotAllowed, "invalid_request_error", None),
    (TooLarge, "invalid_request_error", None),
    (UnsupportedMediaType, "invalid_request_error", None),
    (ChatError, "server_error", None),
)
END = b"data: [DONE]\n\n"


def _refused(failure: ChatError, body: Any) -> bool:
    """Whether the model did not take what the client asked of it. What it does not take of ours is
    not the client's affair."""
    theirs = isinstance(body, dict) and body.get(failure.upstream_param or "") is not None
    return (
        failure.from_model
        and failure.upstream_status in (400, 422)
        and (not failure.upstream_param or theirs)
    )


def status(failure: ChatError, body: Any = None) -> int:
    """The HTTP status: what the model does not take is the client's affair."""
    return 400 if _refused(failure, body) else failure.status


def headers(failure: ChatError) -> Mapping[str, str]:
    """OpenAI's own clients ask twice more after any 5xx: not where that would only cost again."""
    if isinstance(failure, DeadlineExceeded | Misconfigured):
        return {**failure.headers, "x-should-retry": "false"}
    return failure.headers


def error(failure: ChatError, body: Any = None) -> Json:
    """A failure in OpenAI's shape."""
    known, param = failure, failure.field
    if not isinstance(failure, request.Misread):
        param = data_sources.path(failure.field)
    message = f"{param}: {failure.message}" if param else failure.message
    if _refused(failure, body) and not isinstance(failure, ContentFiltered | TooLong):
        known, param = BadRequest(), failure.upstream_param
        message = "The model did not accept the request."
        if param:
            message = f"{param}: the model did not accept it."
    if isinstance(failure, NoSuchModel):
        message += " GET /v1/models lists what there is."
    kind, code = next((kind, code) for type_, kind, code in KINDS if isinstance(known, type_))
    param = "model" if isinstance(failure, NoSuchModel) else param
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def answer(asked: ChatRequest, given: Answer) -> Json:
    """A whole answer: a `chat.completion`."""
    calls = [tool_call_json(call) for call in given.tool_calls]
    message: Json = {"role": "assistant", "content": given.content or (None if calls else "")}
    if calls:
        message["tool_calls"] = calls
    message["context"] = context(asked, given.context)
    choice = {"index": 0, "message": message, "finish_reason": given.done.finish_reason}
    whole = _envelope(asked, given.context, "chat.completion", [choice])
    return whole | {"usage": _usage(given.context, given.done, given.content)}


def chunk(asked: ChatRequest, known: Context, event: Event) -> Json | None:
    """One chunk of a stream. Only the first has a `context`: clients take it for that."""
    reason: str | None = None
    match event:
        case Context():
            delta: Json = {"role": "assistant", "context": context(asked, event)}
        case Delta("", ()):
            return None
        case Delta(content, calls):
            delta = {"content": content} if content else {}
            if calls:
                delta["tool_calls"] = [tool_calls.part(call) for call in calls]
        case Done():
            delta, reason = {}, event.finish_reason
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _envelope(asked, known, "chat.completion.chunk", [choice])


async def encode(asked: ChatRequest, events: Events) -> ByteStream:
    """Each event of a stream, and what stands behind the last."""
    context, parts = Context((), (), ""), list[str]()
    async with aclosing(events):
        async for event in events:
            match event:
                case Context():
                    context = event
                case Delta(content):
                    parts.append(content)
            if (value := chunk(asked, context, event)) is not None:
                yield server_sent_event(value)
            if isinstance(event, Done):
                for line in trailer(asked, Answer(context, "".join(parts), event)):
                    yield line


def stream(asked: ChatRequest, events: Events, error: LateError) -> ByteStream:
    """A stream as server-sent events, an error too."""
    return end_with_error(encode(asked, events), lambda it: server_sent_event(error(it)))


def trailer(asked: ChatRequest, given: Answer) -> list[bytes]:
    """What stands behind the last chunk: the usage where it is asked for, and the mark of the
    end."""
    if not asked.state["include_usage"]:
        return [END]
    last = _envelope(asked, given.context, "chat.completion.chunk", [])
    used = {"usage": _usage(given.context, given.done, given.content)}
    return [server_sent_event(last | used), END]


def _envelope(asked: ChatRequest, known: Context, kind: str, choices: list[Json]) -> Json:
    return {
        "id": f"chatcmpl-{asked.metadata.id}",
        "object": kind,
        "created": asked.metadata.created,
        "model": known.model,
        "choices": choices,
    }


def context(asked: ChatRequest, known: Context) -> Json:
    """The sources, as On Your Data told them, and what was searched for: what is asked for."""
    queries = [step.description for step in known.steps if step.title == "Generated search query"]
    wanted = asked.state["include_contexts"]
    told: Json = {}
    if "citations" in wanted:
        told["citations"] = [_citation(asked.metadata.links, source) for source in known.sources]
    if "intent" in wanted:
        told["intent"] = json.dumps(queries, ensure_ascii=False)
    if "all_retrieved_documents" in wanted:
        found: list[tuple[Source, str | None]] = [(source, None) for source in known.sources]
        found += [(each.source, each.reason) for each in known.excluded]
        told["all_retrieved_documents"] = [
            _citation(asked.metadata.links, source) | _retrieved(source, reason, queries)
            for source, reason in found
        ]
    return told


def _retrieved(source: Source, reason: str | None, queries: Sequence[Any]) -> Json:
    """What On Your Data told of a passage beside its citation."""
    return {
        "search_queries": list(queries),
        "data_source_index": 0,
        "original_search_score": source.score,
        "rerank_score": source.reranker_score,
        **({"filter_reason": reason} if reason else {}),
    }


def _citation(links: str, source: Source) -> Json:
    return {
        "content": source.content,
        "title": source.title or source.sourcepage,
        "url": _url(links, source),
        "filepath": source.sourcefile,
        "chunk_id": source.id,
    }


def _url(links: str, source: Source) -> str:
    """Where the passage can be read: the index's own address where it has them, else our route."""
    if source.url is not None:
        return source.url
    file, _, place = source.sourcepage.partition("#")
    if file in (source.sourcefile, encode_path(source.sourcefile)):
        file = source.sourcefile
    elif source.sourcepage.startswith(source.sourcefile):  # its name has a # in it
        file, place = source.sourcefile, source.sourcepage[len(source.sourcefile) + 1 :]
    else:
        file, place = source.sourcepage, ""
    return f"{links}/content/{quote(file)}" + (f"#{quote(place, safe='=&')}" if place else "")


def _usage(known: Context, done: Done, text: str) -> Json:
    """Tokens: the model's own count, else an estimate."""
    if done.usage is not None:
        return context_json.usage(done.usage)
    prompt = [
        part for step in known.steps for part in step.description if isinstance(part, Message)
    ]
    sent = sum(count_tokens(message.content) for message in prompt)
    made = count_tokens(text)
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}


def model(name: str, owner: str) -> Json:
    """One of the models."""
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}


def models(named: Iterable[tuple[str, str]]) -> Json:
    """The models that there are, each with its provider."""
    return {"object": "list", "data": [model(name, owner) for name, owner in named]}


CHAT = ChatProtocol(
    name="openai",
    media_type="text/event-stream",
    parse=request.parse,
    streams=streams_by_body,
    answer=answer,
    stream=stream,
    prompt_builder=PASSTHROUGH,
    error=error,
    status=status,
    headers=headers,
)
