"""A store of conversations in Azure Cosmos DB for NoSQL: one container, partitioned by owner.

The property `conversation` is the type of an item: the id of its conversation for an interaction,
else one of the constants in `items`. The container has the partition key `/owner`, `defaultTtl` -1
and the composite index (`conversation`, `sort`). The account has one region and strong consistency,
so that each worker reads what another has written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from azure.core.credentials_async import AsyncTokenCredential

from shared.memory import base
from shared.memory.cosmos import items
from shared.memory.cosmos.items import CosmosContainer, Partition

DELETE_BATCH_SIZE = 25  # the service allows 100 operations, but 5 seconds, in a batch


def open_cosmos(
    location: items.ContainerLocation,
    credential: AsyncTokenCredential,
    retention: base.Retention = base.UNLIMITED,
    seconds: float = 10,
    now: base.Clock = time.time,
) -> base.Memory:
    """Return the store in a container. Each call may take `seconds`; this one sends nothing.

    The caller closes the credential.
    """
    container = CosmosContainer(location, credential, seconds, now)
    ids = base.IdGenerator(now)

    async def ready() -> None:
        async with container.pipelines() as partition:
            await partition.read("none")  # a read of a missing item, the cheapest

    return base.Memory(
        name="Azure Cosmos DB",
        conversations=CosmosConversations(container, ids, retention),
        interactions=CosmosInteractions(container, ids, retention),
        pipelines=CosmosPipelines(container),
        new_id=ids.next,
        ready=ready,
        close=container.close,
    )


@dataclass(frozen=True, slots=True)
class CosmosConversations:
    """The Conversations of the store."""

    container: CosmosContainer
    ids: base.IdGenerator
    retention: base.Retention

    async def create(self, owner: str, name: str) -> base.Conversation:
        """Create a conversation.

        Counts and writes are separate requests: concurrent calls can exceed the limits.
        """
        new, limit = self.ids.next(), self.retention.max_conversations
        async with self.container.owner(owner) as partition:
            if limit is not None and await partition.count(items.CONVERSATION) >= limit:
                raise base.TooManyConversations(limit)
            await partition.check_bytes(self.retention.max_bytes)
            expires = self.retention.expiry(new.created)
            item = partition.new_item(
                items.CONVERSATION, new.id, expires, created=new.created, name=name
            )
            await partition.create(item)
        return base.Conversation(new.id, name, new.created)

    async def get(self, owner: str, conversation: str) -> base.Conversation:
        async with self.container.owner(owner) as partition:
            return items.to_conversation(await partition.read_conversation(conversation))

    async def list(self, owner: str, page: base.PageRequest) -> tuple[base.Conversation, ...]:
        async with self.container.owner(owner) as partition:
            rows = await partition.query_page(items.CONVERSATION, page)
            return tuple(map(items.to_conversation, rows))

    async def rename(self, owner: str, conversation: str, name: str) -> None:
        async with self.container.owner(owner) as partition:
            item = await partition.read_conversation(conversation)
            if not await partition.patch(item, {"name": name}):
                raise base.conversation_not_found(conversation)

    async def delete(self, owner: str, conversation: str) -> None:
        """Delete a conversation with its interactions.

        The first batch replaces it by a marker: from then on nothing can be added or read, and
        a repeated call finds the marker and continues.
        """
        if not items.ID_PATTERN.fullmatch(conversation):
            raise base.conversation_not_found(conversation)
        marker = f"{conversation}-{items.DELETED}"
        async with self.container.owner(owner) as partition:
            if not await _mark_deleted(partition, conversation, marker):
                raise base.conversation_not_found(conversation)
            await _delete_interactions(partition, conversation)
            await partition.delete(marker)


@dataclass(frozen=True, slots=True)
class CosmosInteractions:
    """The Interactions of the store."""

    container: CosmosContainer
    ids: base.IdGenerator
    retention: base.Retention

    async def add(
        self,
        owner: str,
        conversation: str,
        turn: base.Turn,
        id: base.GeneratedId | None = None,
    ) -> base.Interaction:
        """Append a turn to a conversation.

        The batch also reads the conversation: so none is added to one that is being deleted.
        """
        async with self.container.owner(owner) as partition:
            parent = await partition.read_conversation(conversation)
            await partition.check_bytes(self.retention.max_bytes)
            new, expires = id or self.ids.next(), parent.get("expires")
            values = {"created": new.created, "bytes": items.count_bytes(turn), **asdict(turn)}
            item = partition.new_item(conversation, new.id, expires, **values)
            if not await partition.create(item, conversation):
                raise base.conversation_not_found(conversation)
        return base.Interaction(new.id, conversation, new.created, turn)

    async def get(self, owner: str, interaction: str) -> base.Interaction:
        """Return the interaction with that id, if its conversation exists."""
        async with self.container.owner(owner) as partition:
            item = await partition.read_interaction(interaction)
            # An unfinished deletion may have left interactions.
            if not await partition.read(item["conversation"]):
                raise base.interaction_not_found(interaction)
            return items.to_interaction(item)

    async def find(self, owner: str, request: str) -> base.Interaction:
        """Return the newest answer to a request, if its conversation exists."""
        async with self.container.owner(owner) as partition:
            for item in await partition.find_interactions(request):
                if await partition.read(item["conversation"]):
                    return items.to_interaction(item)
            raise base.answer_not_found(request)

    async def list(
        self, owner: str, conversation: str, page: base.PageRequest, newest_first: bool = True
    ) -> tuple[base.Interaction, ...]:
        if not items.ID_PATTERN.fullmatch(conversation):
            raise base.conversation_not_found(conversation)
        async with self.container.owner(owner) as partition:
            rows = await partition.query_page(conversation, page, newest_first)
            # Read last: if it exists now, none of its interactions was deleted before.
            await partition.read_conversation(conversation)
            return tuple(map(items.to_interaction, rows))

    async def annotate(self, owner: str, interaction: str, additional_info: str) -> None:
        await self._set(owner, interaction, additional_info=additional_info)

    async def rate(self, owner: str, interaction: str, feedback: str) -> None:
        await self._set(owner, interaction, feedback=feedback)

    async def _set(self, owner: str, interaction: str, **texts: str) -> None:
        """Replace texts of an interaction, if its conversation exists."""
        async with self.container.owner(owner) as partition:
            item = await partition.read_interaction(interaction)
            await partition.check_bytes(self.retention.max_bytes)
            turn = replace(items.to_interaction(item).turn, **texts)
            values = {**texts, "bytes": items.count_bytes(turn)}
            if not await partition.patch(item, values, item["conversation"]):
                raise base.interaction_not_found(interaction)

    async def delete(self, owner: str, interaction: str) -> None:
        """Delete an interaction, if its conversation exists."""
        async with self.container.owner(owner) as partition:
            item = await partition.read_interaction(interaction)
            if not await partition.read(item["conversation"]):
                raise base.interaction_not_found(interaction)
            await partition.delete(interaction)  # another call may have deleted it meanwhile


@dataclass(frozen=True, slots=True)
class CosmosPipelines:
    """The Pipelines of the store."""

    container: CosmosContainer

    async def put(self, name: str, definition: base.Definition) -> None:
        values = {"sort": name, "definition": dict(definition)}
        async with self.container.pipelines() as partition:
            item = partition.new_item(items.PIPELINE, items.pipeline_id(name), None, **values)
            await partition.upsert(item)

    async def get(self, name: str) -> base.Definition | None:
        async with self.container.pipelines() as partition:
            item = await partition.read(items.pipeline_id(name))
            return None if item is None else dict(item["definition"])

    async def all(self) -> Mapping[str, base.Definition]:
        async with self.container.pipelines() as partition:
            rows = await partition.query(items.SELECT_ALL, items.PIPELINE)
            return {item["sort"]: dict(item["definition"]) for item in rows}

    async def delete(self, name: str) -> bool:
        """Delete a pipeline. Its existence is read before: the response of a delete may be lost."""
        async with self.container.pipelines() as partition:
            exists = await partition.read(items.pipeline_id(name)) is not None
            if exists:
                await partition.delete(items.pipeline_id(name))
            return exists


async def _mark_deleted(partition: Partition, conversation: str, marker: str) -> bool:
    """Replace a conversation by a marker. Returns whether there is one now."""
    item = await partition.find_conversation(conversation)
    if item is not None:
        mark = partition.new_item(items.DELETED, marker, item.get("expires"))
        if await partition.replace(conversation, mark):
            return True
    # Another call has marked it, or the response of this one's first attempt was lost.
    return await partition.read(marker) is not None


async def _delete_interactions(partition: Partition, conversation: str) -> None:
    ids = [row["id"] for row in await partition.query(items.SELECT_IDS, conversation)]
    for start in range(0, len(ids), DELETE_BATCH_SIZE):
        batch = ids[start : start + DELETE_BATCH_SIZE]
        if not await partition.delete(*batch):
            for id in batch:  # another call deletes them too
                await partition.delete(id)
