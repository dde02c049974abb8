"""The routes of AOG v0.2."""

from __future__ import annotations

from functools import partial

from shared.chat.errors import NotFound
from shared.http.call import Reply
from shared.protocols import chat as chats
from shared.protocols.aog import response as aog
from shared.protocols.exchange import Exchange
from shared.protocols.route import EVERY_METHOD, READ, Route, check_method

VERSION = "/aog/v0.2"
CHAT = f"{VERSION}/services/{{service}}"
EXAMPLE = f"{VERSION}/services/{aog.NAME}"


async def chat(exchange: Exchange) -> Reply:
    """Answer a chat. Raises NoSuchService for another service, whatever the method is."""
    if exchange.call.path != aog.NAME:
        raise aog.missing_service(exchange.call.path)
    check_method(exchange.call.method, ("POST",), chats.USAGE.format(EXAMPLE))
    body = await chats.begin(exchange, forms=False)
    request = await chats.read_request(exchange, aog.CHAT, body)
    return await chats.respond(exchange, aog.CHAT, request)


async def services(exchange: Exchange) -> Reply:
    """The services."""
    models = exchange.engine.models
    exchange.identify(aog.CHAT)
    return exchange.json_reply(
        aog.services(
            models.policy,
            models.default_provider_name("local"),
            models.default_provider_name("remote"),
        )
    )


async def providers(exchange: Exchange) -> Reply:
    """The providers of the services."""
    models = exchange.engine.models
    exchange.identify(aog.CHAT)
    return exchange.json_reply(aog.service_providers(one.metadata for one in models.providers))


async def other(_exchange: Exchange) -> Reply:
    """Another version."""
    raise NotFound(f"There is nothing here: POST {EXAMPLE} is the chat.")


_route = partial(Route, errors=aog.CHAT)
ROUTES = (
    _route(path=CHAT, methods=EVERY_METHOD, handler=chat),
    _route(path=f"{VERSION}/service", methods=READ, handler=services),
    _route(path=f"{VERSION}/service_provider", methods=READ, handler=providers),
    _route(path="/aog/{*path}", methods=EVERY_METHOD, handler=other),
)
