"""The memory API: conversations and their interactions, in the names of both versions."""

from __future__ import annotations

from shared.chat.errors import Unsupported
from shared.http.json_encoding import Json
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch import memory_json as wire
from shared.protocols.opensearch.handler import owner_and_memory
from shared.protocols.opensearch.memory_json import MemoryNames


async def create(names: MemoryNames, exchange: Exchange) -> Json:
    """Create a conversation."""
    owner, memory = owner_and_memory(exchange)
    return wire.created(names, await memory.conversations.create(owner, wire.name(exchange.body)))


async def conversations(names: MemoryNames, exchange: Exchange) -> Json:
    """A page of the conversations, the newest first."""
    owner, memory = owner_and_memory(exchange)
    page = wire.page(exchange.call.query)
    entries = await memory.conversations.list(owner, page)
    return wire.listed(names.conversations, [wire.conversation(names, it) for it in entries], page)


async def conversation(names: MemoryNames, exchange: Exchange) -> Json:
    """One conversation."""
    owner, memory = owner_and_memory(exchange)
    return wire.conversation(names, await memory.conversations.get(owner, exchange.call.path))


async def rename(_names: MemoryNames, exchange: Exchange) -> Json:
    """Give a conversation another name."""
    owner, memory = owner_and_memory(exchange)
    await memory.conversations.rename(owner, exchange.call.path, wire.new_name(exchange.body))
    return wire.renamed(exchange.call.path)


async def delete(_names: MemoryNames, exchange: Exchange) -> Json:
    """Delete a conversation with its interactions."""
    owner, memory = owner_and_memory(exchange)
    await memory.conversations.delete(owner, exchange.call.path)
    return wire.SUCCESS


async def add(names: MemoryNames, exchange: Exchange) -> Json:
    """Add an interaction to a conversation."""
    owner, memory = owner_and_memory(exchange)
    turn = wire.turn(names, exchange.body)
    return wire.added(names, await memory.interactions.add(owner, exchange.call.path, turn))


async def interactions(names: MemoryNames, exchange: Exchange) -> Json:
    """A page of the interactions of a conversation."""
    owner, memory = owner_and_memory(exchange)
    page, conversation = wire.page(exchange.call.query), exchange.call.path
    entries = await memory.interactions.list(owner, conversation, page, names.newest_first)
    return wire.listed(names.interactions, [wire.interaction(names, it) for it in entries], page)


async def interaction(names: MemoryNames, exchange: Exchange) -> Json:
    """One interaction."""
    owner, memory = owner_and_memory(exchange)
    return wire.interaction(names, await memory.interactions.get(owner, exchange.call.path))


async def annotate(_names: MemoryNames, exchange: Exchange) -> Json:
    """Replace the additional information of an interaction."""
    owner, memory = owner_and_memory(exchange)
    await memory.interactions.annotate(owner, exchange.call.path, wire.annotation(exchange.body))
    return wire.annotated(exchange.call.path)


async def search(_names: MemoryNames, _exchange: Exchange) -> Json:
    """Conversations are listed, not searched."""
    raise Unsupported(
        "Conversations and messages cannot be searched here: list them, the newest first."
    )


async def traces(_names: MemoryNames, _exchange: Exchange) -> Json:
    """There are no traces: no answer is made in several stored steps."""
    raise Unsupported("There are no traces here: a message is all that is stored of an answer.")
