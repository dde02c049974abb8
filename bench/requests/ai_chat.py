"""The versions of the AI Chat Protocol."""

from __future__ import annotations

from collections.abc import Iterator

from bench.requests.endpoint import Endpoint, ask
from bench.schemas import ANY, IMAGE, array, const, either, fields, schema_of
from shared.domain.overrides import Overrides
from shared.protocols.ai_chat import output_text, request

PNG = b"\x89PNG\r\n\x1a\n"


def list_endpoints() -> Iterator[Endpoint]:
    """The versions of the chat protocol."""
    image = either(const(IMAGE), array(const(0), prefix=list(PNG)))
    message = schema_of(
        request.RequestMessage, files=array(schema_of(request.RequestFile, data=image))
    )
    context = fields(overrides=schema_of(Overrides))
    body = schema_of(request._StreamFields, messages=array(message), context=context)
    for route, state in (("/chat", "sessionState"), ("/ask", "session_state")):
        yield Endpoint(route, {**body, "properties": body["properties"] | {state: ANY}}, ask)
    yield Endpoint("/chat/stream", schema_of(output_text._InputFields, context=context), ask)
