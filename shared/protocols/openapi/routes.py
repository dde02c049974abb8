"""GET /api/openapi.json: the description of the app's own routes."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from shared.domain.errors import Misconfigured, NotFound
from shared.http.call import JSON, Reply, dumps
from shared.protocols import context_json
from shared.protocols.exchange import READ, Exchange, Route
from shared.protocols.openapi.document import write_document
from shared.protocols.openapi.operation import Operation
from shared.protocols.openapi.security import OpenApiConfig

NO_DOCUMENT = "This deployment has no OpenAPI document (OPENAPI)."


async def openapi(exchange: Exchange) -> Reply:
    """Answer with the document. Raises NotFound where it is off."""
    if exchange.app.problems:  # nobody knows whether it is to be off
        raise Misconfigured
    config = exchange.app.config(OpenApiConfig)
    if not config.enabled:
        raise NotFound(NO_DOCUMENT)
    routes = tuple(exchange.routes.values())
    return Reply(200, JSON, await asyncio.to_thread(_encode, routes, config), exchange.headers)


@lru_cache(maxsize=1)  # writing it takes tens of milliseconds of processor time
def _encode(routes: tuple[Route, ...], config: OpenApiConfig) -> bytes:
    return dumps(write_document(routes, config))


ROUTES = (
    Route(
        path="/api/openapi.json",
        methods=READ,
        handler=openapi,
        errors=context_json.ERRORS,
        usage="GET /api/openapi.json",
        operations={
            "GET": Operation(
                tag="App",
                summary="This document",
                errors=(404,),
                error=context_json.ERROR_SCHEMA,
            )
        },
    ),
)
