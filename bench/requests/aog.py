"""The service of AOG."""

from __future__ import annotations

from collections.abc import Iterator

from bench.requests.endpoint import Endpoint, ask
from bench.schemas import TEXT, array, const, either, fields, schema_of
from shared.protocols.aog import request

WITHOUT_BODY = ("/aog/{*path}",)


def list_endpoints() -> Iterator[Endpoint]:
    """The service of AOG."""
    parts = array(
        TEXT,
        fields(type=const("text"), text=TEXT),
        fields(type=const("text"), text=fields(value=TEXT)),
        fields(type=const("image_url"), image_url=fields(url=TEXT)),
        fields(type=const("image"), image=const("iVBORw0KGgo=")),
    )
    message = schema_of(request._Message, content=either(TEXT, parts))
    body = schema_of(request._Fields, messages=array(message), stop=array(TEXT))
    yield Endpoint("/aog/v0.2/services/{service}", body, ask, path="chat")
