"""The items in Cosmos DB: their properties, their expiry, the queries for them."""

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
ID_PATTERN = re.compile(r"[0-9A-Za-z]{1,64}")  # of IdGenerator: no other id is sent
SELECT_PAGE = (
    "SELECT * FROM c WHERE c.conversation = @conversation "
    "ORDER BY c.conversation {0}, c.sort {0} OFFSET @start LIMIT @size"
)
NEWEST_FIRST, OLDEST_FIRST = SELECT_PAGE.format("DESC"), SELECT_PAGE.format("ASC")
SELECT_IDS = "SELECT c.id FROM c WHERE c.conversation = @conversation"
# Answered by the index alone: no item is loaded.
SELECT_COUNT = "SELECT VALUE COUNT(1) FROM c WHERE c.conversation = @conversation"
SELECT_ALL = "SELECT * FROM c WHERE c.conversation = @conversation"


@dataclass(frozen=True, slots=True)
class CosmosRepository:
    """Reads the items of owners, and creates their ids and expiry."""

    container: CosmosContainer
    ids: IdGenerator
    retention: Retention
    now: Clock

    async def read_conversation(self, owner: str, id: str) -> Item:
        """Return the item of a conversation. Raises NotFound."""
        item = await self._read_unexpired(owner, id)
        if item is None or item["conversation"] != CONVERSATION:
            raise conversation_not_found(id)
        return item

    async def read_interaction(self, owner: str, id: str) -> Item:
        """Return the item of an interaction, even without its conversation. Raises NotFound."""
        item = await self._read_unexpired(owner, id)
        if item is None or item["conversation"] == CONVERSATION:
            raise interaction_not_found(id)
        return item

    async def query_page(
        self, query: str, owner: str, conversation: str, page: PageRequest
    ) -> list[Item]:
        """Return a page of the items of a conversation, or of the owner's conversations."""
        values = {"start": page.start, "size": page.size}
        found = await self.container.query(
            owner_partition(owner), query, conversation=conversation, **values
        )
        return [item for item in found if self.is_unexpired(item)]

    async def check_limit(self, owner: str) -> None:
        """Raise TooManyConversations if an owner has as many as the limit allows."""
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
        """Return the expiry of a new conversation, as properties of its item."""
        if self.retention.seconds is None:
            return {}
        return self.expiry(datetime.fromisoformat(created).timestamp() + self.retention.seconds)

    def expiry(self, expires: float | None) -> Item:
        """Return an expiry as properties of an item that is written now; none for None.

        The service counts `ttl` in whole seconds from the last change: it never deletes an item
        early. `is_unexpired` covers the rest of the last second.
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
        """Whether an item has not expired."""
        return "expires" not in item or float(item["expires"]) > self.now()


def owner_partition(owner: str) -> str:
    """Return the partition key of an owner."""
    return f"user:{owner}"


def pipeline_id(name: str) -> str:
    """Return the id of a pipeline: a hash, since a name may have characters that ids may not."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def new_item(owner: str, conversation: str, id: str) -> Item:
    """Return the properties that every item of an owner has."""
    return {"id": id, "owner": owner_partition(owner), "conversation": conversation, "sort": id}


def delete_operation(id: str) -> BatchOperation:
    """Return the batch operation that deletes an item."""
    return "delete", (id,)


def to_conversation(item: Item) -> Conversation:
    """Convert an item to a conversation."""
    return Conversation(item["id"], item["name"], item["created"])


def to_interaction(item: Item) -> Interaction:
    """Convert an item to an interaction."""
    turn = Turn(**{field.name: item[field.name] for field in fields(Turn)})
    return Interaction(item["id"], item["conversation"], item["created"], turn)
