"""Chat completions of OpenAI."""

from __future__ import annotations

from collections.abc import Iterator

from bench.requests.endpoint import Endpoint, ask
from bench.schemas import OBJECT, TEXT, array, schema_of
from shared.protocols.openai import request

WITHOUT_BODY = ("/v1/{*path}", "/openai/{*path}")


def list_endpoints() -> Iterator[Endpoint]:
    """Chat completions of OpenAI."""
    function = schema_of(request._Function, parameters=OBJECT)
    tool = schema_of(request._Tool, function=function)
    body = schema_of(request._Fields, tools=array(tool), stop=array(TEXT))
    yield Endpoint("/v1/chat/completions", body, ask)
