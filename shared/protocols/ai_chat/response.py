"""Answers and streams of the AI Chat Protocol, in the three versions of its documents.

The current version (`sessionState`) and the "HTTP protocol for AI chat apps" (`session_state`)
have `message` or `delta`, `context` and the state at the top. The "HTTP protocol for RAG chat
apps", the oldest, has them in OpenAI's envelope, inside of each choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from shared.domain.events import Answer, Context, Delta, Done, Event, Events
from shared.domain.request import ChatRequest
from shared.http.call import Json, json_line
from shared.protocols import context_json
from shared.protocols.ai_chat.request import parse, parse_rag_chat
from shared.protocols.handler import ChatProtocol, Stream, encode_events

ChunkWriter = Callable[[ChatRequest, Context, Event], Json | None]
"""Writes one event of a stream, given the request and the stream's context; None for no line."""


def write_stream(write_chunk: ChunkWriter, request: ChatRequest, events: Events) -> Stream:
    """Encode a stream as JSON lines, one for each event that `write_chunk` writes, or an error."""

    def encode(context: Context, event: Event) -> bytes:
        value = write_chunk(request, context, event)
        return b"" if value is None else json_line(value)

    return Stream(encode_events(events, encode), json_line)


def write_answer(state_key: str, request: ChatRequest, result: Answer) -> Json:
    """Return an answer: `message`, `context` and the state."""
    return {
        "message": context_json.message(result.content),
        "context": context_json.whole_context(result),
        state_key: context_json.state(state_key, request, result.done.conversation),
    }


def write_chunk(
    state_key: str, request: ChatRequest, _context: Context, event: Event
) -> Json | None:
    """Return a line of a stream. Only the first one has the context."""
    match event:
        case Context():
            context = context_json.start_of_context(event)
            state = context_json.state(state_key, request, event.conversation)
            return {"delta": {"role": "assistant"}, "context": context, state_key: state}
        case Delta(content):
            return {"delta": {"content": content}} if content else None
        case Done():
            return {"delta": {"role": "assistant"}, "context": context_json.end_of_context(event)}


def write_rag_chat_answer(request: ChatRequest, result: Answer) -> Json:
    """Return an answer in the envelope of an OpenAI chat completion."""
    done, message = result.done, context_json.message(result.content)
    context = context_json.whole_context(result)
    choice = _choice("message", message, done.finish_reason, context=context)
    choice["session_state"] = context_json.state("session_state", request, done.conversation)
    envelope = _envelope(request, done.model, choice | _filter_results(done), "chat.completion")
    return envelope | {"usage": None} | _from_model(done)


def write_rag_chat_chunk(request: ChatRequest, context: Context, event: Event) -> Json | None:
    """Return a line of a stream, in the envelope of an OpenAI chat completion chunk."""
    match event:
        case Context():
            return _first(request, event)
        case Delta(""):
            return None
        case Delta(content):
            choice = _choice("delta", {"content": content}, None)
            return _envelope(request, context.model, choice, "chat.completion.chunk")
        case Done():
            end = context_json.end_of_context(event)
            choice = _choice("delta", {"role": "assistant"}, event.finish_reason, context=end)
            choice |= _filter_results(event)
            model = event.model or context.model
            return _envelope(request, model, choice, "chat.completion.chunk") | _from_model(event)


def _first(request: ChatRequest, context: Context) -> Json:
    # The published web component of that version reads the context in the delta.
    start = context_json.start_of_context(context)
    choice = _choice("delta", {"role": "assistant", "context": start}, None, context=start)
    choice["session_state"] = context_json.state("session_state", request, context.conversation)
    return {"choices": [choice], "object": "chat.completion.chunk"}


def _choice(key: str, value: Json, finish_reason: str | None, **more: Json) -> Json:
    return {key: value, "finish_reason": finish_reason, "index": 0, **more}


def _envelope(request: ChatRequest, model: str | None, choice: Json, kind: str) -> Json:
    return {
        "id": request.metadata.id,
        "created": request.metadata.created,
        "model": model,
        "object": kind,
        "choices": [choice],
    }


def _filter_results(done: Done) -> Json:
    return {"content_filter_results": done.answer_filter} if done.answer_filter else {}


def _from_model(done: Done) -> Json:
    """Fields that only some models fill: usage, fingerprint, the prompt's filter results."""
    fields = {
        "usage": context_json.usage(done.usage) if done.usage else None,
        "system_fingerprint": done.fingerprint,
        "prompt_filter_results": list(done.prompt_filter) if done.prompt_filter else None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _protocol(name: str, media_type: str, state_key: str) -> ChatProtocol:
    return ChatProtocol(
        name=name,
        media_type=media_type,
        parse=partial(parse, state_key=state_key),
        write_answer=partial(write_answer, state_key),
        write_error=context_json.write_error,
        write_stream=partial(write_stream, partial(write_chunk, state_key)),
    )


CURRENT = _protocol("ai-chat-protocol", "application/jsonl", "sessionState")
APPS = _protocol("ai-chat-apps", "application/json-lines", "session_state")
RAG_CHAT = ChatProtocol(
    name="rag-chat-apps",
    media_type="application/json-lines",
    parse=parse_rag_chat,
    write_answer=write_rag_chat_answer,
    write_error=partial(context_json.write_error, flat=True),
    write_stream=partial(write_stream, write_rag_chat_chunk),
)
ASK = replace(RAG_CHAT, parse=partial(parse_rag_chat, last_only=True))
