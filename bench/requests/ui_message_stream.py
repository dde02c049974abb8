"""The chat of the AI SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.requests.endpoint import Endpoint, Json
from bench.schemas import TEXT, array, const, fields, schema_of
from shared.domain.overrides import Overrides
from shared.protocols.ui_message_stream import request

QUESTION = {"role": "user", "parts": [{"type": "text", "text": "What is in Plus?"}]}
DOCUMENT = const("data:text/plain;base64,YQ==")


def ask(body: Any) -> Json:
    """Return a chat that ends with a question of the user's."""
    return {**body, "messages": [*body.get("messages", ()), QUESTION]}


def list_endpoints() -> Iterator[Endpoint]:
    """The chat of the AI SDK."""
    parts = array(
        fields(type=const("text"), text=TEXT),
        fields(type=const("file"), mediaType=const("image/png"), url=TEXT),
        fields(type=const("file"), mediaType=const("text/plain"), filename=TEXT, url=DOCUMENT),
        schema_of(request._Part, type=const("step-start")),
    )
    message = schema_of(request._Message, parts=parts)
    body = schema_of(request._Fields, messages=array(message), overrides=schema_of(Overrides))
    yield Endpoint("/api/chat", body, ask)
