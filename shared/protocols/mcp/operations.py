"""What the OpenAPI document says of the Model Context Protocol: the frame of its messages."""

from __future__ import annotations

from pathlib import Path

from shared.http.call import EVENTS, JSON
from shared.protocols.openapi.operation import (
    STRING,
    WITH_BODY,
    Examples,
    Operation,
    Schema,
    object_schema,
)

ID: Schema = {"type": ["string", "integer"], "description": "Missing in a notification."}
REQUEST = object_schema(jsonrpc={"const": "2.0"}, method=STRING)
REQUEST["properties"] |= {"id": ID, "params": {"description": "An object."}}
ERROR = object_schema(
    jsonrpc={"const": "2.0"},
    id={"type": ["string", "integer", "null"]},
    error=object_schema(code={"type": "integer"}, message=STRING),
)
MESSAGE = Operation(
    tag="Model Context Protocol",
    summary="Answer one message",
    description="Clients of the versions before 2026-07-28 get most errors with the status 200.",
    request=REQUEST,
    media_types=(JSON, EVENTS),
    statuses={200: "The response.", 202: "A notification has no response."},
    errors=(*WITH_BODY, 404, 406),
    error=ERROR,
    examples=Examples(Path(__file__).with_name("examples.json"), "/mcp"),
)
