"""POST /mcp: one message of the Model Context Protocol a request, without sessions."""

from __future__ import annotations

from shared.domain.errors import BadRequest, UnsupportedMediaType
from shared.http.body import read_body
from shared.http.call import Reply, acceptable_values
from shared.protocols.exchange import Exchange, Route
from shared.protocols.mcp import messages
from shared.protocols.mcp.messages import ERRORS, NotAcceptable, ParseError, Request, RpcMessage
from shared.protocols.mcp.methods import find_method

JSON_RANGES = ("application/json", "application/*", "*/*")


async def mcp(exchange: Exchange) -> Reply:
    """Answer a message. Raises ChatErrors."""
    exchange.identify(ERRORS)
    exchange.start_span()
    headers = exchange.call.headers
    exchange.app.cross_origin.check_origin(headers)
    _check_accept(headers.get("accept", ""))
    user = exchange.app.access.get_user(headers)
    message = await _read_message(exchange)
    if message.id is None:  # a notification
        return Reply(202, "application/json", b"", exchange.headers)
    exchange.identify(ERRORS, message)
    messages.check(message, headers)
    return await exchange.wait_for(find_method(message)(Request(exchange, message, user)))


def _check_accept(accept: str) -> None:
    """Raise NotAcceptable if the header excludes JSON."""
    if accept and not any(each in JSON_RANGES for each in acceptable_values(accept)):
        raise NotAcceptable


async def _read_message(exchange: Exchange) -> RpcMessage:
    """Read a message. Raises ParseError, InvalidRequest, and ChatErrors that quote nothing."""
    call, limits = exchange.call, exchange.app.limits
    try:
        body = await read_body(call, limits, forms=False)
    except BadRequest as failure:
        raise ParseError(failure.message) from None
    except UnsupportedMediaType:
        raise UnsupportedMediaType from None  # the other message names the type that was sent
    return messages.parse(body.json, call.headers)


ROUTES = (
    Route(
        path="/mcp",
        methods=("POST",),
        handler=mcp,
        errors=ERRORS,
        usage="POST /mcp with one JSON-RPC message",
    ),
)
