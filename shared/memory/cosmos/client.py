"""The client of Azure Cosmos DB: retries, mapping of errors, and operations on items.

Every write is idempotent: the app generates ids, and nothing is incremented. So a call whose
response is lost is repeated, and the effect of the first call is no error of the second.
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

from shared.azure import errors
from shared.azure.retry import MAX_WAIT_SECONDS, retry_after_seconds
from shared.chat.errors import Misconfigured, TooLarge, TooManyRequests, Unavailable

CONNECT_SECONDS = 5
TIMEOUT_MESSAGE = "The memory took too long to answer. Ask again."
READ_SESSION_NOT_AVAILABLE = 1002  # the substatus of a 404 that is transient
OK, NOT_FOUND, CONFLICT = 200, 404, 409
TRANSIENT_STATUSES = (408, 410, 449, 500, 503)
RETRY_DELAY = 0.1  # seconds, before a retry after one of these

Item = dict[str, Any]
BatchOperation = tuple[str, tuple[Any, ...]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContainerLocation:
    """The endpoint, database and container of the items. The partition key is `/owner`."""

    endpoint: str
    database: str
    container: str


def make_client(endpoint: str, credential: AsyncTokenCredential) -> CosmosClient:
    """Return a client of an account; each worker needs one. It sends nothing yet."""
    return CosmosClient(
        endpoint,
        credential,
        # `call_with_retry` retries instead: the SDK has no limit for a wait.
        retry_throttle_total=-1,  # its 0 is "unset"
        retry_connect=0,
        retry_read=0,
        enable_endpoint_discovery=False,  # the account has one region
        connection_timeout=CONNECT_SECONDS,
    )


def map_errors() -> AbstractContextManager[None]:
    """Map exceptions of the SDK to ChatErrors."""
    return errors.map_errors("cosmos", map_status, TIMEOUT_MESSAGE)


def map_status(error: HttpResponseError) -> Exception:
    """Map an error response by its status. Its text is not logged: it may quote a conversation."""
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
    """Make a call, and repeat it once after a transient error."""
    try:
        return await call()
    except AzureError as error:
        wait = _retry_delay(error)
        if wait is None:
            raise
    await asyncio.sleep(wait)
    return await call()


def _retry_delay(error: AzureError) -> float | None:
    """Return the seconds before a retry; None if there is to be none."""
    if isinstance(error, ServiceRequestError | ServiceResponseError | DecodeError):
        return 0.0
    status, wait = getattr(error, "status_code", None), _retry_after(error)
    if wait is not None and wait > MAX_WAIT_SECONDS:
        return None
    if status == 429:
        return wait
    return wait or RETRY_DELAY if status in TRANSIENT_STATUSES else None


def _retry_after(error: AzureError) -> float | None:
    headers: Mapping[str, str] = getattr(error, "headers", None) or {}
    wait = headers.get("x-ms-retry-after-ms")
    return retry_after_seconds({"retry-after-ms": str(wait)}) if wait is not None else None


class CosmosContainer:
    """Operations on the items of one container."""

    def __init__(self, client: CosmosClient, place: ContainerLocation, seconds: float) -> None:
        """Set the container. `seconds` limits `operation`."""
        self._client, self._seconds, self._exists = client, seconds, False
        self._container = client.get_database_client(place.database).get_container_client(
            place.container
        )

    @asynccontextmanager
    async def operation(self) -> AsyncIterator[None]:
        """Run the calls of one operation within the time limit, and map their errors."""
        with map_errors():
            async with asyncio.timeout(self._seconds):
                if not self._exists:  # else its 404 would be taken for that of an item
                    await call_with_retry(self._container.read)
                    self._exists = True
                yield

    async def read(self, partition: str, id: str) -> Item | None:
        """Return an item; None if it is missing."""
        try:
            return dict(await call_with_retry(lambda: self._container.read_item(id, partition)))
        except CosmosResourceNotFoundError as error:
            if error.sub_status:  # something else is missing, such as the container
                raise
            return None

    async def create(self, partition: str, item: Item) -> None:
        """Create an item."""
        if await self.batch(partition, [("create", (item,))]) == CONFLICT:
            await self.check_created(partition, item)

    async def check_created(self, partition: str, item: Item) -> None:
        """Check that the stored item of its id is this one. Raises Unavailable."""
        stored = await self.read(partition, item["id"]) or {}
        if any(stored.get(key) != value for key, value in item.items()):
            raise Unavailable(cause="cosmos: another item has the id of a new one")

    async def upsert(self, item: Item) -> None:
        """Create or replace an item."""
        await call_with_retry(lambda: self._container.upsert_item(item))

    async def patch(self, partition: str, id: str, values: Mapping[str, Any]) -> bool:
        """Set properties of an item. Returns whether it exists."""
        return await self.batch(partition, [patch_operation(id, values)]) == OK

    async def delete(self, partition: str, id: str) -> bool:
        """Delete an item. Returns whether it existed."""
        return await self.batch(partition, [("delete", (id,))]) == OK

    async def batch(self, partition: str, operations: Sequence[BatchOperation]) -> int:
        """Run a transactional batch. Returns OK, or NOT_FOUND or CONFLICT if nothing was done."""
        batch = self._container.execute_item_batch
        try:
            await call_with_retry(lambda: batch(operations, partition))
        except CosmosBatchOperationError as error:
            if error.status_code not in (NOT_FOUND, CONFLICT):
                raise
            return int(error.status_code)
        return OK

    async def query(self, partition: str, query: str, **values: Any) -> list[Item]:
        """Return the rows of a query in a partition; `values` are those of its parameters."""
        return [dict(row) for row in await self._query_rows(partition, query, values)]

    async def count(self, partition: str, query: str, **values: Any) -> int:
        """Return the result of a count in a partition: the sum over the pages of the response."""
        return sum(await self._query_rows(partition, query, values))

    async def _query_rows(self, partition: str, query: str, values: Mapping[str, Any]) -> list[Any]:
        parameters = [{"name": f"@{name}", "value": value} for name, value in values.items()]

        async def run() -> list[Any]:
            rows = self._container.query_items(
                query, parameters=parameters, partition_key=partition
            )
            return [row async for row in rows]

        return await call_with_retry(run)

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()


def patch_operation(id: str, values: Mapping[str, Any]) -> BatchOperation:
    """Return the batch operation that sets properties of an item."""
    return "patch", (id, [{"op": "set", "path": f"/{k}", "value": v} for k, v in values.items()])
