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
    IdGenerator,
    Interaction,
    Memory,
    PageRequest,
    Retention,
    Turn,
    conversation_not_found,
    interaction_not_found,
)
from shared.memory.cosmos.client import (
    CONFLICT,
    NOT_FOUND,
    OK,
    BatchOperation,
    ContainerLocation,
    CosmosContainer,
    make_client,
    patch_operation,
)
from shared.memory.cosmos.items import (
    CONVERSATION,
    DELETED,
    ID_PATTERN,
    NEWEST_FIRST,
    OLDEST_FIRST,
    PIPELINE,
    PIPELINES_PARTITION,
    SELECT_ALL,
    SELECT_IDS,
    CosmosRepository,
    delete_operation,
    new_item,
    owner_partition,
    pipeline_id,
    to_conversation,
    to_interaction,
)

DELETE_BATCH_SIZE = 25  # removals in one batch: it may have 100 changes, but no more than 5 seconds


def open_cosmos(
    place: ContainerLocation,
    credential: AsyncTokenCredential,
    retention: Retention = UNLIMITED,
    seconds: float = 10,
    now: Clock = time.time,
) -> Memory:
    """The memory at a place, for `seconds` a call. Nothing is asked before it is used.

    The credential stays its owner's to close.
    """
    items = CosmosContainer(make_client(place.endpoint, credential), place, seconds)
    kept = CosmosRepository(items, IdGenerator(now), retention, now)

    async def ready() -> None:
        async with items.operation():
            await items.read(PIPELINES_PARTITION, "none")  # as cheap as a read of nothing

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

    repository: CosmosRepository

    async def create(self, owner: str, name: str) -> Conversation:
        """Begin one.

        The count and the write are two requests: calls at the same moment can exceed the limit.
        """
        stamp = self.repository.ids.next()
        begun = new_item(owner, CONVERSATION, stamp.id) | {"created": stamp.created, "name": name}
        async with self.repository.container.operation():
            await self.repository.check_limit(owner)
            await self.repository.container.create(
                owner_partition(owner), begun | self.repository.initial_expiry(stamp.created)
            )
        return Conversation(stamp.id, name, stamp.created)

    async def get(self, owner: str, conversation: str) -> Conversation:
        """The one with that id."""
        async with self.repository.container.operation():
            return to_conversation(await self.repository.read_conversation(owner, conversation))

    async def list(self, owner: str, page: PageRequest) -> tuple[Conversation, ...]:
        """A part of the owner's, the newest first."""
        async with self.repository.container.operation():
            found = await self.repository.query_page(NEWEST_FIRST, owner, CONVERSATION, page)
            return tuple(map(to_conversation, found))

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        """Give one another name."""
        async with self.repository.container.operation():
            item = await self.repository.read_conversation(owner, conversation)
            values = {"name": name} | self.repository.expiry(item.get("expires"))
            if not await self.repository.container.patch(
                owner_partition(owner), conversation, values
            ):
                raise conversation_not_found(conversation)

    async def delete(self, owner: str, conversation: str) -> None:
        """Remove one with all that was said in it.

        The first change takes it away and leaves a mark: from then on nothing can be added or
        seen, and whoever comes again knows that there is something left to be done.
        """
        if not ID_PATTERN.fullmatch(conversation):
            raise conversation_not_found(conversation)
        async with self.repository.container.operation():
            mark = f"{conversation}-{DELETED}"
            if not await self._mark_deleted(owner, conversation, mark):
                raise conversation_not_found(conversation)
            await self._delete_interactions(owner, conversation)
            await self.repository.container.delete(owner_partition(owner), mark)

    async def _mark_deleted(self, owner: str, conversation: str, mark: str) -> bool:
        items, item = (
            self.repository.container,
            await self.repository.container.read(owner_partition(owner), conversation),
        )
        if (
            item is not None
            and item["conversation"] == CONVERSATION
            and self.repository.is_unexpired(item)
        ):
            left = new_item(owner, DELETED, mark) | self.repository.expiry(item.get("expires"))
            if (
                await items.batch(
                    owner_partition(owner), [delete_operation(conversation), ("create", (left,))]
                )
                == OK
            ):
                return True
        # Another has begun, or it was this very call, whose first answer was lost.
        return await items.read(owner_partition(owner), mark) is not None

    async def _delete_interactions(self, owner: str, conversation: str) -> None:
        rows = await self.repository.container.query(
            owner_partition(owner), SELECT_IDS, conversation=conversation
        )
        ids = [row["id"] for row in rows]
        for part in (
            ids[start : start + DELETE_BATCH_SIZE]
            for start in range(0, len(ids), DELETE_BATCH_SIZE)
        ):
            if (
                await self.repository.container.batch(
                    owner_partition(owner), [*map(delete_operation, part)]
                )
                == OK
            ):
                continue
            for id in part:  # another removes them too
                await self.repository.container.delete(owner_partition(owner), id)


@dataclass(frozen=True, slots=True)
class CosmosInteractions:
    """What was said in the conversations of each owner."""

    repository: CosmosRepository

    async def add(self, owner: str, conversation: str, said: Turn) -> Interaction:
        """Put one at the end of a conversation: in one change with a read of that.

        So nothing is added to one that is being deleted.
        """
        async with self.repository.container.operation():
            whole = await self.repository.read_conversation(owner, conversation)
            stamp = self.repository.ids.next()
            item = (
                new_item(owner, conversation, stamp.id) | {"created": stamp.created} | asdict(said)
            )
            item |= self.repository.expiry(whole.get("expires"))
            both: list[BatchOperation] = [("read", (conversation,)), ("create", (item,))]
            done = await self.repository.container.batch(owner_partition(owner), both)
            if done == NOT_FOUND:
                raise conversation_not_found(conversation)
            if done == CONFLICT:
                await self.repository.container.check_created(owner_partition(owner), item)
        return Interaction(stamp.id, conversation, stamp.created, said)

    async def get(self, owner: str, interaction: str) -> Interaction:
        """The one with that id, if its conversation is there."""
        async with self.repository.container.operation():
            item = await self.repository.read_interaction(owner, interaction)
            # What a deletion that was broken off has left is not there.
            if not await self.repository.container.read(
                owner_partition(owner), item["conversation"]
            ):
                raise interaction_not_found(interaction)
            return to_interaction(item)

    async def list(
        self, owner: str, conversation: str, page: PageRequest, newest_first: bool = True
    ) -> tuple[Interaction, ...]:
        """A part of a conversation."""
        if not ID_PATTERN.fullmatch(conversation):
            raise conversation_not_found(conversation)
        query = NEWEST_FIRST if newest_first else OLDEST_FIRST
        async with self.repository.container.operation():
            found = await self.repository.query_page(query, owner, conversation, page)
            # Asked last: if it is there now, nothing of it was missing before.
            await self.repository.read_conversation(owner, conversation)
            return tuple(map(to_interaction, found))

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        """Replace the additional information of one, if its conversation is there."""
        async with self.repository.container.operation():
            item = await self.repository.read_interaction(owner, interaction)
            values = {"additional_info": additional_info} | self.repository.expiry(
                item.get("expires")
            )
            both: list[BatchOperation] = [
                ("read", (item["conversation"],)),
                patch_operation(interaction, values),
            ]
            if await self.repository.container.batch(owner_partition(owner), both) != OK:
                raise interaction_not_found(interaction)


@dataclass(frozen=True, slots=True)
class CosmosPipelines:
    """The pipelines of the deployment, by name."""

    container: CosmosContainer

    async def put(self, name: str, definition: Definition) -> None:
        """Store one, in the place of another of that name."""
        stored = {
            "id": pipeline_id(name),
            "owner": PIPELINES_PARTITION,
            "conversation": PIPELINE,
            "sort": name,
        }
        async with self.container.operation():
            await self.container.upsert(stored | {"definition": dict(definition)})

    async def get(self, name: str) -> Definition | None:
        """The one of that name."""
        async with self.container.operation():
            item = await self.container.read(PIPELINES_PARTITION, pipeline_id(name))
            return None if item is None else dict(item["definition"])

    async def all(self) -> Mapping[str, Definition]:
        """Every one, by name."""
        async with self.container.operation():
            found = await self.container.query(
                PIPELINES_PARTITION, SELECT_ALL, conversation=PIPELINE
            )
            return {item["sort"]: dict(item["definition"]) for item in found}

    async def delete(self, name: str) -> bool:
        """Remove one. Asked before, whether there was one: the answer of a removal may be lost."""
        async with self.container.operation():
            there = await self.container.read(PIPELINES_PARTITION, pipeline_id(name)) is not None
            if there:
                await self.container.delete(PIPELINES_PARTITION, pipeline_id(name))
            return there
