"""What the handlers of OpenSearch's routes need of an exchange."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shared.chat.errors import Unsupported
from shared.http.json_encoding import Json
from shared.memory.base import Memory
from shared.protocols.exchange import Exchange

NO_MEMORY = (
    "This deployment keeps no conversations: set AZURE_COSMOS_ENDPOINT, or MEMORY_FILE on one "
    "machine."
)
JsonHandler = Callable[[Exchange], Awaitable[Json]]
"""Answers a call, whose body is an object, with JSON. Raises ChatErrors."""


def get_memory(exchange: Exchange) -> Memory:
    """The memory. Raises Unsupported where there is none."""
    if exchange.app.memory is None:
        raise Unsupported(NO_MEMORY)
    return exchange.app.memory


def owner_and_memory(exchange: Exchange) -> tuple[str, Memory]:
    """Whose conversations a call is about, and the memory. Raises Unsupported, Unauthorized."""
    memory = get_memory(exchange)
    return exchange.app.access.get_owner(exchange.call.headers), memory
