"""The protocols in front of the chat: rows of pure functions, JSON in, JSON out."""

from __future__ import annotations

from typing import Any

from shared.protocols.ai_chat import current, rag_chat
from shared.protocols.aog import response as aog
from shared.protocols.dialect import Dialect
from shared.protocols.openai import response as openai_chat


def pick(route: str, body: Any) -> Dialect:
    """The protocol that a request speaks, told from the route and the body alone.

    What is under `/aog` speaks AOG, under `/v1` and `/openai` OpenAI's chat completions. `/ask`,
    and `/chat` with a `stream` key, speak the oldest age of the chat protocol; else a body with
    `session_state` and no `sessionState` the middle one; else the current one.
    """
    keys = body.keys() if isinstance(body, dict) else ()
    if route.startswith("/aog"):
        return aog.CHAT
    if route.startswith(("/v1", "/openai")):
        return openai_chat.CHAT
    if route == "/ask":
        return rag_chat.ASK
    if route == "/chat" and "stream" in keys:
        return rag_chat.CHAT
    if "session_state" in keys and "sessionState" not in keys:
        return current.APPS
    return current.CURRENT
