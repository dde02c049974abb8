"""What an owner's items in Cosmos DB are like, which of them are alive, and how long they stay."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from math import ceil, floor

from shared.memory.base import (
    Clock,
    Conversation,
    IdGenerator,
    Interaction,
    PageRequest,
    Retention,
    TooManyConversations,
    Turn,
    conversation_not_found,
    interaction_not_found,
)
from shared.memory.cosmos.client import BatchOperation, CosmosContainer, Item

CONVERSATION, DELETED, PIPELINE = "", "deleted", "pipeline"
PIPELINES_PARTITION = "app:pipelines"
ID_PATTERN = re.compile(
    r"[0-9A-Za-z]{1,64}"
)  # those of Stamps: no other is sent, nor that of a mark
SELECT_PAGE = (
    "SELECT * FROM c WHERE c.conversation = @conversation "
    "ORDER BY c.conversation {0}, c.sort {0} OFFSET @start LIMIT @size"
)
NEWEST_FIRST, OLDEST_FIRST = SELECT_PAGE.format("DESC"), SELECT_PAGE.format("ASC")
SELECT_IDS = "SELECT c.id FROM c WHERE c.conversation = @conversation"
# Both are indexed, the partition key and what is asked for: no item is loaded to be counted.
SELECT_COUNT = "SELECT VALUE COUNT(1) FROM c WHERE c.conversation = @conversation"
SELECT_ALL = "SELECT * FROM c WHERE c.conversation = @conversation"


@dataclass(frozen=True, slots=True)
class CosmosRepository:
    """The items of owners, and how long they are kept."""

    container: CosmosContainer
    ids: IdGenerator
    retention: Retention
    now: Clock

    async def read_conversation(self, owner: str, id: str) -> Item:
        """The item of a conversation. Raises NotFound."""
        item = await self._read_unexpired(owner, id)
        if item is None or item["conversation"] != CONVERSATION:
            raise conversation_not_found(id)
        return item

    async def read_interaction(self, owner: str, id: str) -> Item:
        """The item of an interaction, be there its conversation or not. Raises NotFound."""
        item = await self._read_unexpired(owner, id)
        if item is None or item["conversation"] == CONVERSATION:
            raise interaction_not_found(id)
        return item

    async def query_page(
        self, query: str, owner: str, conversation: str, page: PageRequest
    ) -> list[Item]:
        """A part of the items of a conversation, or of those that are conversations."""
        at = {"start": page.start, "size": page.size}
        found = await self.container.query(
            owner_partition(owner), query, conversation=conversation, **at
        )
        return [item for item in found if self.is_unexpired(item)]

    async def check_limit(self, owner: str) -> None:
        """Raise TooManyConversations where an owner has as many as the limit allows."""
        limit = self.retention.max_conversations
        if limit is None:
            return
        if (
            await self.container.count(
                owner_partition(owner), SELECT_COUNT, conversation=CONVERSATION
            )
            >= limit
        ):
            raise TooManyConversations(limit)

    def initial_expiry(self, created: str) -> Item:
        """What tells the end of what begins now."""
        if self.retention.seconds is None:
            return {}
        return self.expiry(datetime.fromisoformat(created).timestamp() + self.retention.seconds)

    def expiry(self, expires: float | None) -> Item:
        """What tells the end of an item that is written now; nothing for one that has none.

        The service counts `ttl` from the last change, in whole seconds of its own clock: it
        removes no item before its time, and what is left of the last second is seen to here.
        """
        if expires is None:
            return {}
        return {"expires": expires, "ttl": max(1, ceil(expires) - floor(self.now()))}

    async def _read_unexpired(self, owner: str, id: str) -> Item | None:
        item = (
            await self.container.read(owner_partition(owner), id)
            if ID_PATTERN.fullmatch(id)
            else None
        )
        return item if item is not None and self.is_unexpired(item) else None

    def is_unexpired(self, item: Item) -> bool:
        """Whether its time is not over."""
        return "expires" not in item or float(item["expires"]) > self.now()


def owner_partition(owner: str) -> str:
    """The partition of an owner."""
    return f"user:{owner}"


def pipeline_id(name: str) -> str:
    """The id of a pipeline: a name may be any text, an id may not."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def new_item(owner: str, conversation: str, id: str) -> Item:
    """What every item of an owner has."""
    return {"id": id, "owner": owner_partition(owner), "conversation": conversation, "sort": id}


def delete_operation(id: str) -> BatchOperation:
    """The change that removes an item."""
    return "delete", (id,)


def to_conversation(item: Item) -> Conversation:
    """A conversation, from its item."""
    return Conversation(item["id"], item["name"], item["created"])


def to_interaction(item: Item) -> Interaction:
    """An interaction, from its item."""
    said = Turn(**{field.name: item[field.name] for field in fields(Turn)})
    return Interaction(item["id"], item["conversation"], item["created"], said)
