"""Finds the stored conversation that a chat continues, or begins."""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.errors import BadRequest
from shared.domain.request import ChatRequest
from shared.memory.chat_history import ChatHistory, has_own_history
from shared.protocols.ai_chat.response import CURRENT
from shared.protocols.context_json import CONVERSATION
from shared.protocols.exchange import Exchange
from shared.protocols.handler import ChatProtocol, streams


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """Which chats the deployment stores."""

    stores_every_chat: bool = False  # also those whose state does not ask for it


def find_history(
    exchange: Exchange, protocol: ChatProtocol, request: ChatRequest
) -> ChatHistory | None:
    """Return the conversation to store a chat in; None if it is not stored."""
    app, state, headers = exchange.app, request.state, exchange.call.headers
    if app.memory is None:
        return None
    if isinstance(state, dict) and CONVERSATION in state:
        conversation = state[CONVERSATION]
        if not isinstance(conversation, str | None):
            raise BadRequest("must be a string or null", field=CONVERSATION)
        owner: str | None = app.access.get_owner(headers)
    elif app.config(HistoryConfig).stores_every_chat and _is_stored(exchange, protocol, request):
        conversation, owner = state or None, app.access.find_owner(headers)
    else:
        return None
    return ChatHistory(app.memory, owner, conversation, streams(exchange)) if owner else None


def _is_stored(exchange: Exchange, protocol: ChatProtocol, request: ChatRequest) -> bool:
    """Return whether a chat is stored that did not ask for it: the first, or one with an id.

    `context_json.state` writes the id.
    """
    if exchange.call.route == "/ask":
        return False
    if request.state in (None, ""):
        return not has_own_history(request)
    return isinstance(request.state, str) and protocol is not CURRENT
