"""The memory API: conversations and what was said in them, in the names of both ages."""

from __future__ import annotations

from shared.chat.errors import Unsupported
from shared.http.json_encoding import Json
from shared.protocols.opensearch import memory_json as wire
from shared.protocols.opensearch.memory_json import MemoryNames
from shared.protocols.opensearch.request_context import RequestContext


async def begin(names: MemoryNames, asked: RequestContext) -> Json:
    """Begin a conversation."""
    owner, memory = asked.mine
    return wire.begun(names, await memory.conversations.create(owner, wire.name(asked.body)))


async def conversations(names: MemoryNames, asked: RequestContext) -> Json:
    """A page of the conversations, the newest first."""
    owner, memory = asked.mine
    page = wire.page(asked.call.query)
    found = await memory.conversations.list(owner, page)
    return wire.listed(names.conversations, [wire.conversation(names, it) for it in found], page)


async def conversation(names: MemoryNames, asked: RequestContext) -> Json:
    """One conversation."""
    owner, memory = asked.mine
    return wire.conversation(names, await memory.conversations.get(owner, asked.call.path))


async def rename(_names: MemoryNames, asked: RequestContext) -> Json:
    """Give a conversation another name."""
    owner, memory = asked.mine
    await memory.conversations.rename(owner, asked.call.path, wire.new_name(asked.body))
    return wire.renamed(asked.call.path)


async def delete(_names: MemoryNames, asked: RequestContext) -> Json:
    """Remove a conversation with all that was said in it."""
    owner, memory = asked.mine
    await memory.conversations.delete(owner, asked.call.path)
    return wire.SUCCESS


async def add(names: MemoryNames, asked: RequestContext) -> Json:
    """Put something at the end of a conversation."""
    owner, memory = asked.mine
    said = wire.said(names, asked.body)
    return wire.added(names, await memory.interactions.add(owner, asked.call.path, said))


async def interactions(names: MemoryNames, asked: RequestContext) -> Json:
    """A page of what was said in a conversation."""
    owner, memory = asked.mine
    page, of = wire.page(asked.call.query), asked.call.path
    found = await memory.interactions.list(owner, of, page, names.newest_first)
    return wire.listed(names.interactions, [wire.interaction(names, it) for it in found], page)


async def interaction(names: MemoryNames, asked: RequestContext) -> Json:
    """One thing that was said."""
    owner, memory = asked.mine
    return wire.interaction(names, await memory.interactions.get(owner, asked.call.path))


async def annotate(_names: MemoryNames, asked: RequestContext) -> Json:
    """Replace the additional information of something that was said."""
    owner, memory = asked.mine
    await memory.interactions.annotate(owner, asked.call.path, wire.annotation(asked.body))
    return wire.annotated(asked.call.path)


async def search(_names: MemoryNames, asked: RequestContext) -> Json:
    """Conversations are listed, not searched."""
    raise Unsupported(
        "Conversations and messages cannot be searched here: list them, the newest first."
    )


async def traces(_names: MemoryNames, asked: RequestContext) -> Json:
    """Nothing is answered in several steps that would be stored."""
    raise Unsupported("There are no traces here: a message is all that is stored of an answer.")
