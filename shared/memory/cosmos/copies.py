"""Answer copies in a container of their own, whose readers see no conversation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

from azure.core.credentials_async import AsyncTokenCredential

from shared.memory.base import Clock
from shared.memory.copies import (
    MAX_COPIES,
    AnswerCopy,
    TooManyCopies,
    copy_expiry,
    explain_misconfigured,
    parse_copy,
)
from shared.memory.cosmos import items
from shared.memory.cosmos.items import ContainerLocation, CosmosContainer

CONTAINER = "feedback"  # beside that of the conversations, with the same partition key
COPY = "copy"  # the property `conversation` of the items

UNUSABLE = (
    f"The container `{CONTAINER}`, for copies of answers, is missing, or the app has no role for "
    "it: `azd provision` makes both. AZURE_FEEDBACK_COPIES=false switches copies off."
)


def open_copies(
    location: ContainerLocation,
    credential: AsyncTokenCredential,
    days: float | None,
    seconds: float = 10,
    now: Clock = time.time,
) -> CosmosCopies:
    """Return the store in a container. Each call may take `seconds`; this one sends nothing.

    The caller closes the credential.
    """
    return CosmosCopies(CosmosContainer(location, credential, seconds, now), days)


@dataclass(frozen=True, slots=True)
class CosmosCopies:
    """The AnswerCopies of the container."""

    container: CosmosContainer
    days: float | None
    max_copies: int = MAX_COPIES
    name: ClassVar[str] = "Azure Cosmos DB"

    async def ready(self) -> None:
        """Check that the container can be read, by the cheapest request."""
        with explain_misconfigured(UNUSABLE):
            async with self.container.copies() as partition:
                await partition.read("none")

    async def put(self, copy: AnswerCopy) -> None:
        """Store a copy.

        Count and write are separate requests: concurrent calls can exceed the limit.
        """
        async with self.container.copies() as partition:
            earlier = await partition.read_unexpired(copy.id)
            if earlier is None and await partition.count(COPY) >= self.max_copies:
                raise TooManyCopies(self.max_copies)
            new = copy_expiry(partition.now(), self.days)
            expires = earlier.get("expires") if earlier else new
            item = partition.new_item(COPY, copy.id, expires, content=copy.to_json())
            await partition.upsert(item)

    async def delete(self, id: str) -> bool:
        """Delete a copy. Its existence is read before: the response of a delete may be lost."""
        async with self.container.copies() as partition:
            exists = await partition.read_unexpired(id) is not None
            if exists:
                await partition.delete(id)
            return exists

    async def exists(self, id: str) -> bool:
        async with self.container.copies() as partition:
            return await partition.read_unexpired(id) is not None

    async def all(self) -> Sequence[AnswerCopy]:
        async with self.container.copies() as partition:
            rows = await partition.query(items.SELECT_ALL, COPY)
            copies = [parse_copy(row["content"]) for row in rows if partition.is_unexpired(row)]
            return sorted(copies, key=attrgetter("day", "id"))

    async def close(self) -> None:
        await self.container.close()
