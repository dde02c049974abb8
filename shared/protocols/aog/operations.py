"""What the OpenAPI document says of AOG v0.2."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shared.http.call import EVENTS, JSON
from shared.protocols.aog.request import _Fields
from shared.protocols.openapi.operation import (
    STRING,
    WITH_ANSWER,
    Examples,
    Operation,
    object_schema,
)

ERROR = object_schema(business_code={"type": "integer"}, message=STRING)
_operation = partial(Operation, tag="AOG v0.2", error=ERROR)
CHAT = _operation(
    summary="Answer a chat; the service is `chat`",
    request=_Fields,
    media_types=(JSON, EVENTS),
    errors=(*WITH_ANSWER, 502),
    examples=Examples(Path(__file__).with_name("examples.json"), "/aog/v0.2/services/{service}"),
)
SERVICES = _operation(summary="List the services")
PROVIDERS = _operation(summary="List the providers")
