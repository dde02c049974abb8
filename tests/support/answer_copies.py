"""Stores of answer copies: in a fake Cosmos DB account, and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from shared.domain import errors
from shared.memory.copies import AnswerCopies, AnswerCopy
from shared.memory.cosmos.copies import CONTAINER, open_copies
from shared.memory.cosmos.items import ContainerLocation
from tests.support.azurite import AzuriteCredential
from tests.support.fake_cosmos import DATABASE, FakeCosmos, connections_closed


@asynccontextmanager
async def open_cosmos_copies(fake: FakeCosmos, days: float | None) -> AsyncIterator[AnswerCopies]:
    """Opens the copies of the account with the real SDK, by the account's clock."""
    location = ContainerLocation(fake.url, DATABASE, CONTAINER)
    store = open_copies(location, AzuriteCredential(), days, now=fake.now)
    try:
        yield store
    finally:
        await store.close()
        await connections_closed(fake)


class Copies:
    """Copies in a list, whose calls fail while `failing`."""

    name = "fake"

    def __init__(self, days: float | None = 90) -> None:
        self.days, self.kept, self.failing = days, dict[str, AnswerCopy](), False
        self.meanwhile: Callable[[], Awaitable[None]] | None = None  # called before a copy is put

    async def ready(self) -> None:
        self.check()

    async def put(self, copy: AnswerCopy) -> None:
        self.check()
        await asyncio.sleep(0.001)
        if self.meanwhile:
            await self.meanwhile()
        self.kept[copy.id] = copy

    async def delete(self, id: str) -> bool:
        self.check()
        return self.kept.pop(id, None) is not None

    async def exists(self, id: str) -> bool:
        self.check()
        return id in self.kept

    async def all(self) -> tuple[AnswerCopy, ...]:
        return tuple(self.kept.values())

    async def close(self) -> None:
        pass

    def check(self) -> None:
        if self.failing:
            raise errors.Unavailable
