"""A store of conversations in Azure Cosmos DB for NoSQL: one container, partitioned by owner.

The property `conversation` is the type of an item: the id of its conversation for an interaction,
else one of the constants in `items`. The container has the partition key `/owner`, `defaultTtl` -1
and the composite index (`conversation`, `sort`). The account has one region and strong consistency,
so that each worker reads what another has written.
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

DELETE_BATCH_SIZE = 25  # the service allows 100 operations, but 5 seconds, in a batch


def open_cosmos(
    place: ContainerLocation,
    credential: AsyncTokenCredential,
    retention: Retention = UNLIMITED,
    seconds: float = 10,
    now: Clock = time.time,
) -> Memory:
    """Return the store in a container. Each call may take `seconds`; this one sends nothing.

    The caller closes the credential.
    """
    items = CosmosContainer(make_client(place.endpoint, credential), place, seconds)
    repository = CosmosRepository(items, IdGenerator(now), retention, now)

    async def ready() -> None:
        async with items.operation():
            await items.read(PIPELINES_PARTITION, "none")  # a read of a missing item, the cheapest

    return Memory(
        "Azure Cosmos DB",
        CosmosConversations(repository),
        CosmosInteractions(repository),
        CosmosPipelines(items),
        ready,
        items.close,
    )


@dataclass(frozen=True, slots=True)
class CosmosConversations:
    """The Conversations of the store."""

    repository: CosmosRepository

    async def create(self, owner: str, name: str) -> Conversation:
        """Create a conversation.

        The count and the write are two requests: concurrent calls can exceed the limit.
        """
        new = self.repository.ids.next()
        item = new_item(owner, CONVERSATION, new.id) | {"created": new.created, "name": name}
        async with self.repository.container.operation():
            await self.repository.check_limit(owner)
            await self.repository.container.create(
                owner_partition(owner), item | self.repository.initial_expiry(new.created)
            )
        return Conversation(new.id, name, new.created)

    async def get(self, owner: str, conversation: str) -> Conversation:
        """Return the conversation with that id."""
        async with self.repository.container.operation():
            return to_conversation(await self.repository.read_conversation(owner, conversation))

    async def list(self, owner: str, page: PageRequest) -> tuple[Conversation, ...]:
        """Return a page of an owner's conversations, the newest first."""
        async with self.repository.container.operation():
            found = await self.repository.query_page(NEWEST_FIRST, owner, CONVERSATION, page)
            return tuple(map(to_conversation, found))

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        """Rename a conversation."""
        async with self.repository.container.operation():
            item = await self.repository.read_conversation(owner, conversation)
            values = {"name": name} | self.repository.expiry(item.get("expires"))
            if not await self.repository.container.patch(
                owner_partition(owner), conversation, values
            ):
                raise conversation_not_found(conversation)

    async def delete(self, owner: str, conversation: str) -> None:
        """Delete a conversation with its interactions.

        The first batch replaces it by a marker: from then on nothing can be added or read, and
        a repeated call finds the marker and continues.
        """
        if not ID_PATTERN.fullmatch(conversation):
            raise conversation_not_found(conversation)
        async with self.repository.container.operation():
            marker = f"{conversation}-{DELETED}"
            if not await self._mark_deleted(owner, conversation, marker):
                raise conversation_not_found(conversation)
            await self._delete_interactions(owner, conversation)
            await self.repository.container.delete(owner_partition(owner), marker)

    async def _mark_deleted(self, owner: str, conversation: str, marker: str) -> bool:
        repository, key = self.repository, owner_partition(owner)
        container = repository.container
        item = await container.read(key, conversation)
        if item and item["conversation"] == CONVERSATION and repository.is_unexpired(item):
            created = new_item(owner, DELETED, marker) | repository.expiry(item.get("expires"))
            operations = [delete_operation(conversation), ("create", (created,))]
            if await container.batch(key, operations) == OK:
                return True
        # Another call has marked it, or the response of this one's first attempt was lost.
        return await container.read(key, marker) is not None

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
            for id in part:  # another call deletes them too
                await self.repository.container.delete(owner_partition(owner), id)


@dataclass(frozen=True, slots=True)
class CosmosInteractions:
    """The Interactions of the store."""

    repository: CosmosRepository

    async def add(self, owner: str, conversation: str, turn: Turn) -> Interaction:
        """Append a turn to a conversation.

        The batch also reads the conversation: so none is added to one that is being deleted.
        """
        async with self.repository.container.operation():
            parent = await self.repository.read_conversation(owner, conversation)
            new = self.repository.ids.next()
            item = new_item(owner, conversation, new.id) | {"created": new.created} | asdict(turn)
            item |= self.repository.expiry(parent.get("expires"))
            operations: list[BatchOperation] = [("read", (conversation,)), ("create", (item,))]
            status = await self.repository.container.batch(owner_partition(owner), operations)
            if status == NOT_FOUND:
                raise conversation_not_found(conversation)
            if status == CONFLICT:
                await self.repository.container.check_created(owner_partition(owner), item)
        return Interaction(new.id, conversation, new.created, turn)

    async def get(self, owner: str, interaction: str) -> Interaction:
        """Return the interaction with that id, if its conversation exists."""
        async with self.repository.container.operation():
            item = await self.repository.read_interaction(owner, interaction)
            # An unfinished deletion may have left interactions.
            if not await self.repository.container.read(
                owner_partition(owner), item["conversation"]
            ):
                raise interaction_not_found(interaction)
            return to_interaction(item)

    async def list(
        self, owner: str, conversation: str, page: PageRequest, newest_first: bool = True
    ) -> tuple[Interaction, ...]:
        """Return a page of a conversation."""
        if not ID_PATTERN.fullmatch(conversation):
            raise conversation_not_found(conversation)
        query = NEWEST_FIRST if newest_first else OLDEST_FIRST
        async with self.repository.container.operation():
            found = await self.repository.query_page(query, owner, conversation, page)
            # Read last: if it exists now, none of its interactions was deleted before.
            await self.repository.read_conversation(owner, conversation)
            return tuple(map(to_interaction, found))

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        """Replace the additional information of an interaction, if its conversation exists."""
        async with self.repository.container.operation():
            item = await self.repository.read_interaction(owner, interaction)
            values = {"additional_info": additional_info} | self.repository.expiry(
                item.get("expires")
            )
            operations: list[BatchOperation] = [
                ("read", (item["conversation"],)),
                patch_operation(interaction, values),
            ]
            if await self.repository.container.batch(owner_partition(owner), operations) != OK:
                raise interaction_not_found(interaction)


@dataclass(frozen=True, slots=True)
class CosmosPipelines:
    """The Pipelines of the store."""

    container: CosmosContainer

    async def put(self, name: str, definition: Definition) -> None:
        """Create or replace a pipeline."""
        stored = {
            "id": pipeline_id(name),
            "owner": PIPELINES_PARTITION,
            "conversation": PIPELINE,
            "sort": name,
        }
        async with self.container.operation():
            await self.container.upsert(stored | {"definition": dict(definition)})

    async def get(self, name: str) -> Definition | None:
        """Return the pipeline of that name; None if exists is none."""
        async with self.container.operation():
            item = await self.container.read(PIPELINES_PARTITION, pipeline_id(name))
            return None if item is None else dict(item["definition"])

    async def all(self) -> Mapping[str, Definition]:
        """Return all pipelines by name."""
        async with self.container.operation():
            found = await self.container.query(
                PIPELINES_PARTITION, SELECT_ALL, conversation=PIPELINE
            )
            return {item["sort"]: dict(item["definition"]) for item in found}

    async def delete(self, name: str) -> bool:
        """Delete a pipeline. Its existence is read before: the response of a delete may be lost."""
        async with self.container.operation():
            exists = await self.container.read(PIPELINES_PARTITION, pipeline_id(name)) is not None
            if exists:
                await self.container.delete(PIPELINES_PARTITION, pipeline_id(name))
            return exists
