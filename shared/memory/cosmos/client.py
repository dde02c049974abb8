"""The client of Azure Cosmos DB: what is tried again, what its failures mean, and its items.

Every write here can be sent twice: ids are chosen before, and nothing counts up. So a call whose
answer was lost is made once more, and what the first one did is no failure of the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import (
    AzureError,
    DecodeError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.cosmos.aio import CosmosClient
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosResourceNotFoundError

from shared.azure import error_mapping, retry_after
from shared.chat.errors import Misconfigured, TooLarge, TooManyRequests, Unavailable

CONNECT_SECONDS = 5
TIMEOUT_MESSAGE = "The memory took too long to answer. Ask again."
READ_SESSION_NOT_AVAILABLE = 1002  # the substatus of a 404 that will pass
OK, NOT_FOUND, CONFLICT = 200, 404, 409
TRANSIENT_STATUSES = (408, 410, 449, 500, 503)
RETRY_DELAY = 0.1  # seconds, before another try after one of these

Item = dict[str, Any]
BatchOperation = tuple[str, tuple[Any, ...]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContainerLocation:
    """Where the items lie. The container's partition key is `/owner`."""

    endpoint: str
    database: str
    container: str


def make_client(endpoint: str, credential: AsyncTokenCredential) -> CosmosClient:
    """The client of an account, made once a worker; it asks nothing before it is used."""
    return CosmosClient(
        endpoint,
        credential,
        # What is tried again is decided below: the SDK knows no limit for a wait.
        retry_throttle_total=-1,  # its 0 is "unset"
        retry_connect=0,
        retry_read=0,
        enable_endpoint_discovery=False,  # one region: no other is tried after a failure
        connection_timeout=CONNECT_SECONDS,
    )


def map_errors() -> AbstractContextManager[None]:
    """The one place where the exceptions of the SDK become ours."""
    return error_mapping.map_errors("cosmos", map_status, TIMEOUT_MESSAGE)


def map_status(error: HttpResponseError) -> Exception:
    """What a refusal means. Its text is not logged: it may hold what was said."""
    cause = f"cosmos: status {error.status_code}, substatus {getattr(error, 'sub_status', None)}"
    match error.status_code:
        case 429:
            return TooManyRequests(retry_after=_retry_after(error), cause=cause)
        case 401 | 403:
            hint = "does the app's identity have the role Cosmos DB Built-in Data Contributor?"
            return Misconfigured(cause=f"{cause}: {hint}")
        case 404 if getattr(error, "sub_status", None) != READ_SESSION_NOT_AVAILABLE:
            return Misconfigured(cause=f"{cause}: are the database and its container there?")
        case 400:
            hint = "does the container have its partition key and its composite index?"
            return Misconfigured(cause=f"{cause}: {hint}")
        case 413:
            return TooLarge()
        case _:
            return Unavailable(retry_after=_retry_after(error), cause=cause)


async def call_with_retry(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call, and once more where that is worth it."""
    try:
        return await call()
    except AzureError as error:
        wait = _retry_delay(error)
        if wait is None:
            raise
    await asyncio.sleep(wait)
    return await call()


def _retry_delay(error: AzureError) -> float | None:
    """After how many seconds another try is worth it; None where it is not."""
    if isinstance(error, ServiceRequestError | ServiceResponseError | DecodeError):
        return 0.0
    status, asked = getattr(error, "status_code", None), _retry_after(error)
    if asked is not None and asked > retry_after.MAX_WAIT_SECONDS:
        return None
    if status == 429:
        return asked
    return asked or RETRY_DELAY if status in TRANSIENT_STATUSES else None


def _retry_after(error: AzureError) -> float | None:
    headers: Mapping[str, str] = getattr(error, "headers", None) or {}
    said = headers.get("x-ms-retry-after-ms")
    return (
        retry_after.retry_after_seconds({"retry-after-ms": str(said)}) if said is not None else None
    )


class CosmosContainer:
    """The items of one container, each in a partition."""

    def __init__(self, client: CosmosClient, place: ContainerLocation, seconds: float) -> None:
        """`seconds` is the limit of `operation`."""
        self._client, self._seconds, self._exists = client, seconds, False
        self._container = client.get_database_client(place.database).get_container_client(
            place.container
        )

    @asynccontextmanager
    async def operation(self) -> AsyncIterator[None]:
        """All that one operation asks: within the time limit, its failures ChatErrors."""
        with map_errors():
            async with asyncio.timeout(self._seconds):
                if not self._exists:  # else its 404 would look like that of an item
                    await call_with_retry(self._container.read)
                    self._exists = True
                yield

    async def read(self, partition: str, id: str) -> Item | None:
        """One; None where it is missing."""
        try:
            return dict(await call_with_retry(lambda: self._container.read_item(id, partition)))
        except CosmosResourceNotFoundError as error:
            if error.sub_status:  # it is about something else, such as the container
                raise
            return None

    async def create(self, partition: str, item: Item) -> None:
        """Store a new one."""
        if await self.batch(partition, [("create", (item,))]) == CONFLICT:
            await self.check_created(partition, item)

    async def check_created(self, partition: str, item: Item) -> None:
        """See that what is there under its id is this one, sent before. Raises Unavailable."""
        there = await self.read(partition, item["id"]) or {}
        if any(there.get(key) != value for key, value in item.items()):
            raise Unavailable(cause="cosmos: another item has the id of a new one")

    async def upsert(self, item: Item) -> None:
        """Store one, in the place of another."""
        await call_with_retry(lambda: self._container.upsert_item(item))

    async def patch(self, partition: str, id: str, values: Mapping[str, Any]) -> bool:
        """Give some of its properties other values; whether it is there."""
        return await self.batch(partition, [patch_operation(id, values)]) == OK

    async def delete(self, partition: str, id: str) -> bool:
        """Remove one; whether it was there."""
        return await self.batch(partition, [("delete", (id,))]) == OK

    async def batch(self, partition: str, changes: Sequence[BatchOperation]) -> int:
        """All of the changes, or none: DONE, or MISSING or THERE for what one of them met."""
        try:
            await call_with_retry(lambda: self._container.execute_item_batch(changes, partition))
        except CosmosBatchOperationError as error:
            if error.status_code not in (NOT_FOUND, CONFLICT):
                raise
            return int(error.status_code)
        return OK

    async def query(self, partition: str, query: str, **values: Any) -> list[Item]:
        """What a query finds in the partition; `values` are those of its parameters."""
        return [dict(row) for row in await self._query_rows(partition, query, values)]

    async def count(self, partition: str, query: str, **values: Any) -> int:
        """What a query counts in the partition: each page of its answer counts a part."""
        return sum(await self._query_rows(partition, query, values))

    async def _query_rows(self, partition: str, query: str, values: Mapping[str, Any]) -> list[Any]:
        parameters = [{"name": f"@{name}", "value": value} for name, value in values.items()]

        async def found() -> list[Any]:
            rows = self._container.query_items(
                query, parameters=parameters, partition_key=partition
            )
            return [row async for row in rows]

        return await call_with_retry(found)

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()


def patch_operation(id: str, values: Mapping[str, Any]) -> BatchOperation:
    """The change that gives some properties of an item other values."""
    return "patch", (id, [{"op": "set", "path": f"/{k}", "value": v} for k, v in values.items()])
