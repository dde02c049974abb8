"""What the OpenAPI document says of the AI Chat Protocol."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shared.http.call import JSON, JSON_LINES_TYPES
from shared.protocols import context_json
from shared.protocols.ai_chat.output_text import _InputFields
from shared.protocols.ai_chat.request import _Fields, _StreamFields
from shared.protocols.openapi.operation import WITH_ANSWER, Examples, Operation

EXAMPLES = Path(__file__).with_name("examples.json")
_operation = partial(
    Operation,
    tag="AI Chat Protocol",
    form=True,
    errors=WITH_ANSWER,
    error=context_json.ERROR_SCHEMA,
)
OPERATIONS = {
    "/chat": _operation(
        summary="Answer a chat",
        description="The version of the protocol depends on the body: `input` without `messages` "
        "is the newest; else a key `stream` the oldest; else `session_state` without "
        "`sessionState` the one before the current.",
        request={"anyOf": [_StreamFields, _InputFields]},
        media_types=(JSON, *JSON_LINES_TYPES),
        examples=Examples(EXAMPLES, "/chat"),
    ),
    "/chat/stream": _operation(
        summary="Answer a chat as a stream: a JSON object a line",
        request={"anyOf": [_Fields, _InputFields]},
        media_types=JSON_LINES_TYPES,
        examples=Examples(EXAMPLES, "/chat/stream"),
    ),
    "/ask": _operation(
        summary="Answer the last message alone, in the oldest version of the protocol",
        request=_StreamFields,
        media_types=(JSON, "application/json-lines"),
        examples=Examples(EXAMPLES, "/ask"),
    ),
}
