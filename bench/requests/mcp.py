"""The messages of MCP."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from bench.requests.endpoint import Endpoint
from bench.schemas import ANY, OBJECT, const, either, fields, schema_of
from shared.protocols.mcp import tools


def list_endpoints() -> Iterator[Endpoint]:
    """The messages of MCP."""
    rpc = {"jsonrpc": const("2.0"), "id": const(1)}
    models: dict[str, type[BaseModel]] = {
        "search": tools.Search,
        "fetch": tools.Fetch,
        "ask": tools.Ask,
    }
    for name, model in models.items():
        params = fields(name=const(name), arguments=schema_of(model), _meta=OBJECT)
        yield Endpoint("/mcp", fields(**rpc, method=const("tools/call"), params=params))
    ping = fields(**rpc, method=const("ping"), params=OBJECT)
    yield Endpoint("/mcp", either(ping, ANY))
