"""What the OpenAPI document says of the UI message stream."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shared.http.call import EVENTS
from shared.protocols.openapi.operation import STRING, WITH_ANSWER, Examples, Operation
from shared.protocols.ui_message_stream.request import _Fields

_operation = partial(
    Operation, tag="UI message stream", error=STRING, error_media_type="text/plain"
)
CHAT = _operation(
    summary="Answer a chat of `useChat` as a stream",
    description="`messages`, or `message` alone with a `conversation_id`, is required.",
    request=_Fields,
    media_types=(EVENTS,),
    errors=WITH_ANSWER,
    examples=Examples(Path(__file__).with_name("examples.json"), "/api/chat"),
)
RESUME = _operation(
    summary="Say that there is no stream to resume",
    statuses={204: "Each stream ends with its connection."},
    media_types=(),
)
