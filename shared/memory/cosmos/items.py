"""The items in Cosmos DB: their properties, their expiry, the operations on them.

Every write is idempotent: the app generates ids, and nothing is incremented. So a call whose
response is lost is repeated, and the effect of the first call is no error of the second.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import astuple, dataclass, fields
from hashlib import sha256
from math import ceil, floor
from operator import itemgetter
from typing import Any

from azure.core.credentials_async import AsyncTokenCredential
from azure.cosmos.aio import ContainerProxy
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosResourceNotFoundError

from shared.domain.errors import Unavailable
from shared.memory import base
from shared.memory.cosmos.client import call_with_retry, make_client, map_errors

CONVERSATION, DELETED, PIPELINE = "", "deleted", "pipeline"
ID_PATTERN = re.compile(r"[0-9A-Za-z]{1,64}")  # of IdGenerator: no other id is sent
SELECT_ALL = "SELECT * FROM c WHERE c.conversation = @conversation"
SELECT_PAGE = SELECT_ALL + " ORDER BY c.conversation {0}, c.sort {0} OFFSET @start LIMIT @size"
SELECT_IDS = "SELECT c.id FROM c WHERE c.conversation = @conversation"
# Answered by the index alone: no item is loaded.
SELECT_COUNT = "SELECT VALUE COUNT(1) FROM c WHERE c.conversation = @conversation"
# The sum over the interactions, whose `conversation` is not empty. Those of earlier versions have
# no `bytes`, and do not count.
SELECT_BYTES = "SELECT VALUE SUM(c.bytes) FROM c WHERE c.conversation > @conversation"
SELECT_ANSWERS = "SELECT * FROM c WHERE c.conversation > @conversation AND c.request = @request"
MAX_TTL = 2**31 - 1  # seconds that the service accepts
OK, NOT_FOUND, CONFLICT = 200, 404, 409

Item = dict[str, Any]
BatchOperation = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class ContainerLocation:
    """The endpoint, database and container of the items. The partition key is `/owner`."""

    endpoint: str
    database: str
    container: str


class CosmosContainer:
    """The container of the items. `seconds` limits each operation."""

    def __init__(
        self,
        location: ContainerLocation,
        credential: AsyncTokenCredential,
        seconds: float,
        now: base.Clock,
    ) -> None:
        self._client = make_client(location.endpoint, credential)
        database = self._client.get_database_client(location.database)
        self._container = database.get_container_client(location.container)
        self._seconds, self._now, self._exists = seconds, now, False

    def owner(self, owner: str) -> AbstractAsyncContextManager[Partition]:
        """Return the context of an operation on the items of an owner."""
        return self._operation(f"user:{owner}")

    def pipelines(self) -> AbstractAsyncContextManager[Partition]:
        """Return the context of an operation on the pipelines."""
        return self._operation("app:pipelines")

    def copies(self) -> AbstractAsyncContextManager[Partition]:
        """Return the context of an operation on answer copies."""
        return self._operation("app:copies")

    @asynccontextmanager
    async def _operation(self, partition: str) -> AsyncIterator[Partition]:
        """Run the calls of one operation within the time limit, and map their errors."""
        with map_errors():
            async with asyncio.timeout(self._seconds):
                if not self._exists:  # else its 404 would be taken for that of an item
                    await call_with_retry(self._container.read)
                    self._exists = True
                yield Partition(self._container, partition, self._now)

    async def close(self) -> None:
        await self._client.close()


@dataclass(frozen=True, slots=True)
class Partition:
    """The items of one partition: of an owner, or the pipelines."""

    container: ContainerProxy
    key: str
    now: base.Clock  # decides what has expired

    async def read(self, id: str) -> Item | None:
        """Return an item; None if it is missing."""
        try:
            return await call_with_retry(lambda: self.container.read_item(id, self.key))
        except CosmosResourceNotFoundError as error:
            if error.sub_status:  # something else is missing, such as the container
                raise
            return None

    async def find_conversation(self, id: str) -> Item | None:
        """Return the item of a conversation; None if it is missing."""
        item = await self.read_unexpired(id)
        is_conversation = item is not None and item["conversation"] == CONVERSATION
        return item if is_conversation else None

    async def read_conversation(self, id: str) -> Item:
        """Return the item of a conversation. Raises NotFound."""
        item = await self.find_conversation(id)
        if item is None:
            raise base.conversation_not_found(id)
        return item

    async def read_interaction(self, id: str) -> Item:
        """Return the item of an interaction, even without its conversation. Raises NotFound."""
        item = await self.read_unexpired(id)
        if item is None or item["conversation"] == CONVERSATION:
            raise base.interaction_not_found(id)
        return item

    async def read_unexpired(self, id: str) -> Item | None:
        """Return an item; None if it is missing or expired."""
        item = await self.read(id) if ID_PATTERN.fullmatch(id) else None
        return item if item is not None and self.is_unexpired(item) else None

    def is_unexpired(self, item: Item) -> bool:
        """Return whether an item, which the service has not deleted yet, counts."""
        return "expires" not in item or float(item["expires"]) > self.now()

    async def query(self, query: str, conversation: str, **values: int | str) -> list[Any]:
        """Return the rows of a query; `values` are those of its other parameters."""
        names = {"conversation": conversation, **values}
        parameters: list[dict[str, object]] = [
            {"name": f"@{name}", "value": value} for name, value in names.items()
        ]

        async def run() -> list[Any]:
            rows = self.container.query_items(query, parameters=parameters, partition_key=self.key)
            return [row async for row in rows]

        return await call_with_retry(run)

    async def query_page(
        self, conversation: str, page: base.PageRequest, newest_first: bool = True
    ) -> list[Item]:
        """Return a page of the items of a conversation, or of the owner's conversations."""
        query = SELECT_PAGE.format("DESC" if newest_first else "ASC")
        rows = await self.query(query, conversation, start=page.start, size=page.size)
        return [item for item in rows if self.is_unexpired(item)]

    async def find_interactions(self, request: str) -> list[Item]:
        """Return the items with answers to a request, the newest first.

        Their conversations may be gone.
        """
        rows = await self.query(SELECT_ANSWERS, CONVERSATION, request=request) if request else []
        items = [item for item in rows if self.is_unexpired(item)]
        return sorted(items, key=itemgetter("sort"), reverse=True)

    async def count(self, conversation: str) -> int:
        """Return the number of items of a type: the sum over the response's pages."""
        return sum(await self.query(SELECT_COUNT, conversation))

    async def check_bytes(self, limit: int | None) -> None:
        """Raise TooManyBytes if the owner's interactions have as many as the limit allows."""
        if limit is None:
            return
        sizes = await self.query(SELECT_BYTES, CONVERSATION)
        if sum(size for size in sizes if isinstance(size, int | float)) >= limit:
            raise base.TooManyBytes(limit)

    def new_item(self, conversation: str, id: str, expires: float | None, **values: Any) -> Item:
        """Return an item that is written now. `values` are its other properties."""
        item = {"id": id, "owner": self.key, "conversation": conversation, "sort": id}
        return item | values | self._expiry(expires)

    def _expiry(self, expires: float | None) -> Item:
        """Return an expiry as properties of an item that is written now; none for None.

        The service counts `ttl` in whole seconds from the last change: it never deletes an item
        early. `is_unexpired` covers the rest of the last second.
        """
        if expires is None:
            return {}
        seconds = max(1, ceil(expires) - floor(self.now()))
        return {"expires": expires, "ttl": min(seconds, MAX_TTL)}

    async def create(self, item: Item, *required: str) -> bool:
        """Create an item. Returns whether the items with the ids `required` exist."""
        status = await self._batch(*map(_read, required), ("create", (item,)))
        if status == CONFLICT:  # the response of the first attempt may have been lost
            stored = await self.read(item["id"]) or {}
            if any(stored.get(key) != value for key, value in item.items()):
                raise Unavailable(cause="cosmos: another item has the id of a new one")
        return status != NOT_FOUND

    async def upsert(self, item: Item) -> None:
        """Create or replace an item."""
        await call_with_retry(lambda: self.container.upsert_item(item))

    async def patch(self, item: Item, values: Item, *required: str) -> bool:
        """Set properties of an item. Returns whether it and the ones `required` exist."""
        changes = values | self._expiry(item.get("expires"))
        patches = [{"op": "set", "path": f"/{k}", "value": v} for k, v in changes.items()]
        return await self._batch(*map(_read, required), ("patch", (item["id"], patches))) == OK

    async def replace(self, id: str, item: Item) -> bool:
        """Delete an item and create another. Returns whether both worked; if not, neither does."""
        return await self._batch(("delete", (id,)), ("create", (item,))) == OK

    async def delete(self, *ids: str) -> bool:
        """Delete items. Returns whether all existed; if not, none is deleted."""
        return await self._batch(*(("delete", (id,)) for id in ids)) == OK

    async def _batch(self, *operations: BatchOperation) -> int:
        """Run a transactional batch. Returns OK, or NOT_FOUND or CONFLICT if nothing was done."""
        batch = self.container.execute_item_batch
        try:
            await call_with_retry(lambda: batch(operations, self.key))
        except CosmosBatchOperationError as error:
            if error.status_code not in (NOT_FOUND, CONFLICT):
                raise
            return int(error.status_code)
        return OK


def _read(id: str) -> BatchOperation:
    """Return the batch operation that fails if an item is missing."""
    return "read", (id,)


def pipeline_id(name: str) -> str:
    """Return the id of a pipeline: a hash, since a name may have characters that ids may not."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def to_conversation(item: Item) -> base.Conversation:
    """Convert an item to a conversation."""
    return base.Conversation(item["id"], item["name"], item["created"])


def count_bytes(turn: base.Turn) -> int:
    """Return the bytes that a turn counts for the owner's limit."""
    return base.TURN_OVERHEAD_BYTES + sum(
        len(text.encode(errors="replace")) for text in astuple(turn)
    )


def to_interaction(item: Item) -> base.Interaction:
    """Convert an item to an interaction."""
    # Items of earlier versions lack some of the properties.
    turn = base.Turn(**{field.name: item.get(field.name, "") for field in fields(base.Turn)})
    return base.Interaction(item["id"], item["conversation"], item["created"], turn)
