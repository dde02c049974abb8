"""The AI Chat Protocol: the current version (`sessionState`) and "HTTP protocol for AI chat apps".

Both: `POST /chat` answers whole, `POST /chat/stream` as JSON lines, whatever the body says.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from shared.chat.events import Answer, Context, Delta, Done, Event
from shared.chat.request import ChatRequest
from shared.http.json_encoding import Json, json_line
from shared.protocols import context_json
from shared.protocols.ai_chat.request import parse
from shared.protocols.chat import ChatProtocol, stream_of


def streams(route: str, _body: Any) -> bool:
    """The route alone decides; a `stream` key is ignored."""
    return route.endswith("/stream")


def answer(state_key: str, request: ChatRequest, result: Answer) -> Json:
    """A whole answer: `message`, `context` and the state."""
    context = context_json.start_of_context(result.context) | context_json.end_of_context(
        result.done
    )
    state = context_json.state(request, result.done.conversation)
    return {"message": context_json.message(result.content), "context": context, state_key: state}


def chunk(state_key: str, request: ChatRequest, _context: Context, event: Event) -> Json | None:
    """One line of a stream. The context goes out once, in the first line."""
    match event:
        case Context():
            context = context_json.start_of_context(event)
            state = context_json.state(request, event.conversation)
            return {"delta": {"role": "assistant"}, "context": context, state_key: state}
        case Delta(content):
            return {"delta": {"content": content}} if content else None
        case Done():
            return {"delta": {"role": "assistant"}, "context": context_json.end_of_context(event)}


def _protocol(name: str, media_type: str, state_key: str) -> ChatProtocol:
    return ChatProtocol(
        name=name,
        media_type=media_type,
        parse=partial(parse, state_key=state_key),
        streams=streams,
        answer=partial(answer, state_key),
        error=context_json.error,
        stream=stream_of(partial(chunk, state_key), json_line),
    )


CURRENT = _protocol("ai-chat-protocol", "application/jsonl", "sessionState")
APPS = _protocol("ai-chat-apps", "application/json-lines", "session_state")
