"""The "HTTP protocol for RAG chat apps": OpenAI's envelope with the context inside each choice.

`POST /chat` with a `stream` key, and `POST /ask`, which looks at the last message only.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from shared.chat.events import Answer, Context, Delta, Done, Event
from shared.chat.request import ChatRequest
from shared.http.body import Body
from shared.http.json_encoding import Json, json_line
from shared.protocols import context_json
from shared.protocols.ai_chat.request import parse as parse_request
from shared.protocols.ai_chat.request import parse_boolean
from shared.protocols.chat import ChatProtocol, stream_of, streams_by_body


def parse(body: Body, last_only: bool = False) -> ChatRequest:
    """Read a request; overrides may stand right under `context`. Raises BadRequest."""
    request = parse_request(body, "session_state", flat=True, last_only=last_only)
    parse_boolean(body.json, "stream")
    return request


def answer(request: ChatRequest, result: Answer) -> Json:
    """A whole answer, in the envelope of an OpenAI chat completion."""
    done = result.done
    context = context_json.start_of_context(result.context) | context_json.end_of_context(done)
    choice = _choice(
        "message", context_json.message(result.content), done.finish_reason, context=context
    )
    choice["session_state"] = context_json.state(request, result.done.conversation)
    envelope = _envelope(request, done.model, choice | _filter_results(done), "chat.completion")
    return envelope | {"usage": None} | _from_model(done)


def chunk(request: ChatRequest, context: Context, event: Event) -> Json | None:
    """One line of a stream: the envelope of an OpenAI chat completion chunk."""
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
            model = event.model or context.model
            whole = _envelope(
                request, model, choice | _filter_results(event), "chat.completion.chunk"
            )
            return whole | _from_model(event)


def _first(request: ChatRequest, context: Context) -> Json:
    # The published web component of that version reads the context in the delta.
    start = context_json.start_of_context(context)
    choice = _choice("delta", {"role": "assistant", "context": start}, None, context=start)
    choice["session_state"] = context_json.state(request, context.conversation)
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


CHAT = ChatProtocol(
    name="rag-chat-apps",
    media_type="application/json-lines",
    parse=parse,
    streams=streams_by_body,
    answer=answer,
    error=partial(context_json.error, flat=True),
    stream=stream_of(chunk, json_line),
)
ASK = replace(CHAT, parse=partial(parse, last_only=True))
