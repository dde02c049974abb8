"""What the OpenAPI document says of the Responses API."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shared.http.call import EVENTS, JSON
from shared.protocols.openai.responses.request import _Fields
from shared.protocols.openapi.operation import (
    STRING,
    WITH_ANSWER,
    Examples,
    Operation,
    object_schema,
)

ERROR = object_schema(error=object_schema(message=STRING, type=STRING, param=STRING, code=STRING))
_operation = partial(
    Operation, tag="OpenAI Responses", error=ERROR, app_key=True, errors=(404, 501)
)
CREATE = _operation(
    summary="Create a response",
    request=_Fields,
    media_types=(JSON, EVENTS),
    errors=WITH_ANSWER,
    examples=Examples(Path(__file__).with_name("examples.json"), "/v1/responses"),
)
READ = _operation(summary="Return a stored response", query={"stream": {"enum": ["false"]}})
DELETE = _operation(summary="Delete a stored response")
INPUT_ITEMS = _operation(summary="List the input of a stored response")
