"""The routes of the AI Chat Protocol, and which of its versions a request speaks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.domain.errors import BadRequest
from shared.domain.request import ChatRequest
from shared.http.call import Reply
from shared.protocols.ai_chat import web_component
from shared.protocols.ai_chat.history import find_history
from shared.protocols.ai_chat.operations import OPERATIONS
from shared.protocols.ai_chat.output_text import INPUT, OUTPUT_TEXT
from shared.protocols.ai_chat.response import APPS, ASK, CURRENT, RAG_CHAT
from shared.protocols.exchange import Exchange, Route
from shared.protocols.handler import USAGE, ChatProtocol, read_request, respond


@dataclass(frozen=True, slots=True)
class AiChatConfig:
    """How the deployment answers chats of this protocol."""

    answers: str = "message"  # the key of the answer to a chat with `session_state`


async def chat(exchange: Exchange) -> Reply:
    """Answer a chat, in a stored conversation where its state names one."""
    answers, body = exchange.app.config(AiChatConfig).answers, await exchange.read_body(forms=True)
    protocol = choose_protocol(exchange.call.route, body.json, answers)
    request = await read_request(exchange, protocol, body)
    if not exchange.rag.client_prompts:
        _refuse_instructions(request, "input" if protocol is INPUT else "messages")
    history = find_history(exchange, protocol, request)
    if history is not None:
        request = await exchange.wait_for(history.with_history(request))
    return await respond(exchange, protocol, request, history=history)


# What answers bodies with `session_state` and no `sessionState`, by the setting CHAT_ANSWERS: two
# versions of the protocol have the same requests.
ANSWERS = {"message": APPS, "output_text": OUTPUT_TEXT}


def choose_protocol(route: str, body: Any, answers: str = "message") -> ChatProtocol:
    """Return the version of the protocol that a request uses, by its route and body.

    A body with `input` and no `messages` uses the newest; else `/ask`, and `/chat` with a `stream`
    key, the oldest; else a body with `session_state` and no `sessionState` that of `answers`;
    else the current one.
    """
    keys = body if isinstance(body, dict) else {}
    if route != "/ask" and keys.get("input") is not None and keys.get("messages") is None:
        return INPUT
    if route == "/ask" or (route == "/chat" and "stream" in keys):
        oldest = ASK if route == "/ask" else RAG_CHAT
        return web_component.adapt(oldest) if web_component.is_web_component(body) else oldest
    if "session_state" in keys and "sessionState" not in keys:
        return ANSWERS[answers]
    return CURRENT


def _refuse_instructions(request: ChatRequest, key: str) -> None:
    """Raise BadRequest for a client's instructions, where they may not instruct the model.

    `key` is that of the messages in its body.
    """
    for place, message in enumerate(request.messages):
        if message.role == "system" and message.content.strip():
            field = f"{key}[{place}].role"
            raise BadRequest("must be user or assistant in this deployment", field=field)


_route = partial(Route, methods=("POST",), handler=chat, errors=CURRENT)
ROUTES = tuple(
    _route(path=path, usage=USAGE.format(path), operations={"POST": OPERATIONS[path]})
    for path in ("/chat", "/chat/stream", "/ask")
)
