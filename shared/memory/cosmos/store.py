"""Memory in Azure Cosmos DB for NoSQL: one container, whose partitions are the owners.

An item's `conversation` says what it is: an interaction of the conversation of that id, or one of
the words below. The container has the partition key `/owner`, `defaultTtl` -1 and the composite
index (`conversation`, `sort`). The account has one region and strong consistency: what one worker
has written, every other reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from azure.core.credentials_async import AsyncTokenCredential

from shared.memory.base import (
    UNLIMITED,
    Clock,
    Conversation,
    Definition,
    Interaction,
    Memory,
    PageRequest,
    Retention,
    Stamps,
    Turn,
    no_conversation,
    no_interaction,
)
from shared.memory.cosmos.client import (
    DONE,
    MISSING,
    THERE,
    Change,
    Items,
    Place,
    make_client,
    setting,
)
from shared.memory.cosmos.items import (
    ALL,
    CONVERSATION,
    DELETED,
    ID,
    IDS,
    NEWEST,
    OLDEST,
    PIPELINE,
    PIPELINES,
    CosmosRepository,
    as_conversation,
    as_interaction,
    named,
    new,
    of,
    removal,
)

MOST = 25  # removals in one batch: it may have 100 changes, but no more than 5 seconds


def open_cosmos(
    place: Place,
    credential: AsyncTokenCredential,
    retention: Retention = UNLIMITED,
    seconds: float = 10,
    now: Clock = time.time,
) -> Memory:
    """The memory at a place, for `seconds` a call. Nothing is asked before it is used.

    The credential stays its owner's to close.
    """
    items = Items(make_client(place.endpoint, credential), place, seconds)
    kept = CosmosRepository(items, Stamps(now), retention, now)

    async def ready() -> None:
        async with items.asking():
            await items.read(PIPELINES, "none")  # as cheap as a read of nothing

    return Memory(
        "Azure Cosmos DB",
        CosmosConversations(kept),
        CosmosInteractions(kept),
        CosmosPipelines(items),
        ready,
        items.close,
    )


@dataclass(frozen=True, slots=True)
class CosmosConversations:
    """The conversations of each owner."""

    kept: CosmosRepository

    async def create(self, owner: str, name: str) -> Conversation:
        """Begin one.

        The count and the write are two requests: calls at the same moment can exceed the limit.
        """
        stamp = self.kept.stamps.next()
        begun = new(owner, CONVERSATION, stamp.id) | {"created": stamp.created, "name": name}
        async with self.kept.items.asking():
            await self.kept.check_limit(owner)
            await self.kept.items.create(of(owner), begun | self.kept.begins(stamp.created))
        return Conversation(stamp.id, name, stamp.created)

    async def get(self, owner: str, conversation: str) -> Conversation:
        """The one with that id."""
        async with self.kept.items.asking():
            return as_conversation(await self.kept.conversation(owner, conversation))

    async def list(self, owner: str, page: PageRequest) -> tuple[Conversation, ...]:
        """A part of the owner's, the newest first."""
        async with self.kept.items.asking():
            found = await self.kept.page(NEWEST, owner, CONVERSATION, page)
            return tuple(map(as_conversation, found))

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        """Give one another name."""
        async with self.kept.items.asking():
            item = await self.kept.conversation(owner, conversation)
            values = {"name": name} | self.kept.until(item.get("expires"))
            if not await self.kept.items.set(of(owner), conversation, values):
                raise no_conversation(conversation)

    async def delete(self, owner: str, conversation: str) -> None:
        """Remove one with all that was said in it.

        The first change takes it away and leaves a mark: from then on nothing can be added or
        seen, and whoever comes again knows that there is something left to be done.
        """
        if not ID.fullmatch(conversation):
            raise no_conversation(conversation)
        async with self.kept.items.asking():
            mark = f"{conversation}-{DELETED}"
            if not await self._marked(owner, conversation, mark):
                raise no_conversation(conversation)
            await self._emptied(owner, conversation)
            await self.kept.items.delete(of(owner), mark)

    async def _marked(self, owner: str, conversation: str, mark: str) -> bool:
        items, item = self.kept.items, await self.kept.items.read(of(owner), conversation)
        if item is not None and item["conversation"] == CONVERSATION and self.kept.lives(item):
            left = new(owner, DELETED, mark) | self.kept.until(item.get("expires"))
            if await items.batch(of(owner), [removal(conversation), ("create", (left,))]) == DONE:
                return True
        # Another has begun, or it was this very call, whose first answer was lost.
        return await items.read(of(owner), mark) is not None

    async def _emptied(self, owner: str, conversation: str) -> None:
        rows = await self.kept.items.select(of(owner), IDS, conversation=conversation)
        ids = [row["id"] for row in rows]
        for part in (ids[start : start + MOST] for start in range(0, len(ids), MOST)):
            if await self.kept.items.batch(of(owner), [*map(removal, part)]) == DONE:
                continue
            for id in part:  # another removes them too
                await self.kept.items.delete(of(owner), id)


@dataclass(frozen=True, slots=True)
class CosmosInteractions:
    """What was said in the conversations of each owner."""

    kept: CosmosRepository

    async def add(self, owner: str, conversation: str, said: Turn) -> Interaction:
        """Put one at the end of a conversation: in one change with a read of that.

        So nothing is added to one that is being deleted.
        """
        async with self.kept.items.asking():
            whole = await self.kept.conversation(owner, conversation)
            stamp = self.kept.stamps.next()
            item = new(owner, conversation, stamp.id) | {"created": stamp.created} | asdict(said)
            item |= self.kept.until(whole.get("expires"))
            both: list[Change] = [("read", (conversation,)), ("create", (item,))]
            done = await self.kept.items.batch(of(owner), both)
            if done == MISSING:
                raise no_conversation(conversation)
            if done == THERE:
                await self.kept.items.confirm(of(owner), item)
        return Interaction(stamp.id, conversation, stamp.created, said)

    async def get(self, owner: str, interaction: str) -> Interaction:
        """The one with that id, if its conversation is there."""
        async with self.kept.items.asking():
            item = await self.kept.interaction(owner, interaction)
            # What a deletion that was broken off has left is not there.
            if not await self.kept.items.read(of(owner), item["conversation"]):
                raise no_interaction(interaction)
            return as_interaction(item)

    async def list(
        self, owner: str, conversation: str, page: PageRequest, newest_first: bool = True
    ) -> tuple[Interaction, ...]:
        """A part of a conversation."""
        if not ID.fullmatch(conversation):
            raise no_conversation(conversation)
        query = NEWEST if newest_first else OLDEST
        async with self.kept.items.asking():
            found = await self.kept.page(query, owner, conversation, page)
            # Asked last: if it is there now, nothing of it was missing before.
            await self.kept.conversation(owner, conversation)
            return tuple(map(as_interaction, found))

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        """Replace the additional information of one, if its conversation is there."""
        async with self.kept.items.asking():
            item = await self.kept.interaction(owner, interaction)
            values = {"additional_info": additional_info} | self.kept.until(item.get("expires"))
            both: list[Change] = [("read", (item["conversation"],)), setting(interaction, values)]
            if await self.kept.items.batch(of(owner), both) != DONE:
                raise no_interaction(interaction)


@dataclass(frozen=True, slots=True)
class CosmosPipelines:
    """The pipelines of the deployment, by name."""

    items: Items

    async def put(self, name: str, definition: Definition) -> None:
        """Store one, in the place of another of that name."""
        stored = {"id": named(name), "owner": PIPELINES, "conversation": PIPELINE, "sort": name}
        async with self.items.asking():
            await self.items.put(stored | {"definition": dict(definition)})

    async def get(self, name: str) -> Definition | None:
        """The one of that name."""
        async with self.items.asking():
            item = await self.items.read(PIPELINES, named(name))
            return None if item is None else dict(item["definition"])

    async def all(self) -> Mapping[str, Definition]:
        """Every one, by name."""
        async with self.items.asking():
            found = await self.items.select(PIPELINES, ALL, conversation=PIPELINE)
            return {item["sort"]: dict(item["definition"]) for item in found}

    async def delete(self, name: str) -> bool:
        """Remove one. Asked before, whether there was one: the answer of a removal may be lost."""
        async with self.items.asking():
            there = await self.items.read(PIPELINES, named(name)) is not None
            if there:
                await self.items.delete(PIPELINES, named(name))
            return there
