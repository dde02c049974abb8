"""The routes of the AI SDK: its chat, and a stream to resume, of which there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.domain.errors import BadRequest
from shared.http.call import JSON, Reply
from shared.protocols.exchange import READ, Exchange, Route
from shared.protocols.handler import read_request, respond
from shared.protocols.message_files import resolve_files
from shared.protocols.ui_message_stream import operations
from shared.protocols.ui_message_stream.history import find_history
from shared.protocols.ui_message_stream.response import HEADERS, UI_MESSAGE_STREAM

USAGE = (
    "POST /api/chat with Content-Type: application/json and a body such as "
    '{"messages": [{"role": "user", "parts": [{"type": "text", "text": "..."}]}]}'
)


async def chat(exchange: Exchange) -> Reply:
    """Answer a chat as a stream, in a stored conversation where it names one."""
    body = await exchange.read_body()
    request = await read_request(exchange, UI_MESSAGE_STREAM, body)
    if not exchange.rag.client_prompts:
        _refuse_instructions(body.json.get("messages") or ())
    history = find_history(exchange, request)
    if history is not None:
        request = await exchange.wait_for(history.with_history(request))
    request = await resolve_files(exchange, request)
    exchange.headers.update(HEADERS)
    return await respond(exchange, UI_MESSAGE_STREAM, request, history=history)


def _refuse_instructions(messages: Sequence[Mapping[str, object]]) -> None:
    """Raise BadRequest for a page's instructions, where they may not instruct the model."""
    for place, message in enumerate(messages):
        if message["role"] == "system":
            field = f"messages[{place}].role"
            raise BadRequest("must be user or assistant in this deployment", field=field)


async def resume(exchange: Exchange) -> Reply:
    """Say that there is no stream to resume: each ends with its connection."""
    exchange.identify(UI_MESSAGE_STREAM)
    return Reply(204, JSON, b"", exchange.headers)


ROUTES = (
    Route(
        path="/api/chat",
        methods=("POST",),
        handler=chat,
        errors=UI_MESSAGE_STREAM,
        operations={"POST": operations.CHAT},
        usage=USAGE,
    ),
    Route(
        path="/api/chat/{id}/stream",
        methods=READ,
        handler=resume,
        errors=UI_MESSAGE_STREAM,
        operations={"GET": operations.RESUME},
    ),
)
