"""What the OpenAPI document says of chat completions, and of the list of models."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shared.http.call import EVENTS, JSON
from shared.protocols.openai.request import _Fields
from shared.protocols.openapi.operation import (
    STRING,
    WITH_ANSWER,
    Examples,
    Operation,
    Schema,
    object_schema,
)

OPTIONAL: Schema = {"type": ["string", "null"]}
ERROR = object_schema(
    error=object_schema(message=STRING, type=STRING, param=OPTIONAL, code=OPTIONAL)
)
_operation = partial(
    Operation, tag="OpenAI chat completions", error=ERROR, app_key=True, errors=(404,)
)
CHAT = _operation(
    summary="Answer a chat completion",
    request=_Fields,
    media_types=(JSON, EVENTS),
    errors=WITH_ANSWER,
    examples=Examples(Path(__file__).with_name("examples.json"), "/v1/chat/completions"),
)
LIST = _operation(summary="List the models")
MODEL = _operation(summary="Describe a model")
