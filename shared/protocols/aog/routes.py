"""The routes of AOG v0.2: its one service, `chat`, and the lists of services and providers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from shared.domain.errors import NotFound
from shared.http.call import Json, Reply
from shared.models.router import Provider
from shared.protocols.aog import operations
from shared.protocols.aog.response import CHAT, NoSuchService
from shared.protocols.exchange import EVERY_METHOD, READ, Exchange, Route, check_method
from shared.protocols.handler import USAGE, read_request, respond

SERVICE = "chat"
VERSION = "/aog/v0.2"
CHAT_ROUTE = f"{VERSION}/services/{{service}}"
CHAT_PATH = f"{VERSION}/services/{SERVICE}"


@dataclass(frozen=True, slots=True)
class AogConfig:
    """What is known of the providers, by name: fields of the specification's description."""

    descriptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


async def chat(exchange: Exchange) -> Reply:
    """Answer a chat. Raises NoSuchService for another service, whatever the method is."""
    if exchange.call.path != SERVICE:
        printable = re.sub(r"[^\w.-]", "?", exchange.call.path)[:60]
        raise NoSuchService(f"There is no service {printable}: the one here is {SERVICE}.")
    check_method(exchange.call.method, ("POST",), USAGE.format(CHAT_PATH))
    body = await exchange.read_body()
    request = await read_request(exchange, CHAT, body)
    return await respond(exchange, CHAT, request)


async def list_services(exchange: Exchange) -> Reply:
    """List the one service, with the names of its default providers."""
    models = exchange.rag.models
    service = {
        "service_name": SERVICE,
        "hybrid_policy": models.policy,
        "local_service_providers": models.default_provider_name("local"),
        "remote_service_providers": models.default_provider_name("remote"),
    }
    exchange.identify(CHAT)
    body = {"business_code": 10000, "message": "The services.", "data": [service]}
    return exchange.json_reply(body)


async def list_providers(exchange: Exchange) -> Reply:
    """List the providers of the service, without their keys."""
    descriptions = exchange.app.config(AogConfig).descriptions
    data = [
        {**_format_provider(provider), **descriptions.get(provider.name, {})}
        for provider in exchange.rag.models.providers
    ]
    exchange.identify(CHAT)
    body = {"business_code": 20000, "message": "The service providers.", "data": data}
    return exchange.json_reply(body)


def _format_provider(provider: Provider) -> Json:
    properties = {
        "max_input_tokens": provider.get_model(None).max_prompt_tokens,
        "supported_response_mode": ["stream", "sync"],
    }
    return {
        "provider_name": provider.name,
        "service_name": SERVICE,
        "service_source": provider.side,
        "desc": "",
        "method": "POST",
        "url": "",
        "flavor": "",
        "properties": properties,
        "auth_type": "none",
        "extra_headers": {},
        "extra_json_body": {},
        "status": int(provider.available),
        "models": list(provider.models),
        "allow_to_select_model": provider.allows_selection,
    }


async def reject_version(_exchange: Exchange) -> Reply:
    """Raise NotFound for another version."""
    raise NotFound(f"There is nothing here: POST {CHAT_PATH} is the chat.")


_route = partial(Route, errors=CHAT)
ROUTES = (
    _route(
        path=CHAT_ROUTE, methods=EVERY_METHOD, handler=chat, operations={"POST": operations.CHAT}
    ),
    _route(
        path=f"{VERSION}/service",
        methods=READ,
        handler=list_services,
        operations={"GET": operations.SERVICES},
    ),
    _route(
        path=f"{VERSION}/service_provider",
        methods=READ,
        handler=list_providers,
        operations={"GET": operations.PROVIDERS},
    ),
    _route(path="/aog/{*path}", methods=EVERY_METHOD, handler=reject_version),
)
