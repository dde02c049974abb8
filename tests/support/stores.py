"""The stores that the tests of the memory contract run against, each opened for one test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from shared.bootstrap.build import build
from shared.memory.base import Clock, Memory, Retention
from shared.memory.sqlite.store import open_memory
from shared.settings import read_settings
from tests.support.calls import Client
from tests.support.fake_cosmos import FakeCosmos, run_cosmos
from tests.support.fake_cosmos import open_cosmos_memory as cosmos_opened
from tests.support.servers import LAPTOP


class OpenStore(Protocol):
    """Opens the same store each time, with the data of earlier openings."""

    def __call__(
        self,
        retention_seconds: float | None = None,
        now: Clock = time.time,
        max_conversations: int | None = None,
        max_bytes: int | None = None,
    ) -> AbstractAsyncContextManager[Memory]: ...


def sqlite_store(folder: Path) -> OpenStore:
    """Returns the opener of a SQLite file in a folder."""

    @asynccontextmanager
    async def open_store(
        retention_seconds: float | None = None,
        now: Clock = time.time,
        max_conversations: int | None = None,
        max_bytes: int | None = None,
    ) -> AsyncIterator[Memory]:
        retention = Retention(retention_seconds, max_conversations, max_bytes)
        memory = open_memory(folder / "memory.db", retention, now=now)
        try:
            yield memory
        finally:
            await memory.close()

    return open_store


def cosmos_store(fake: FakeCosmos) -> OpenStore:
    """Returns the opener of a fake Cosmos DB account."""
    return partial(cosmos_opened, fake)


@contextmanager
def sqlite_memory(
    folder: Path,
    retention_seconds: float | None = None,
    now: Clock = time.time,
    max_conversations: int | None = None,
    max_bytes: int | None = None,
) -> Iterator[Memory]:
    """Opens a SQLite memory until the block ends."""
    retention = Retention(retention_seconds, max_conversations, max_bytes)
    memory = open_memory(folder / "memory.db", retention, now=now)

    async def close() -> None:
        await memory.close()

    try:
        yield memory
    finally:
        asyncio.run(close())


@contextmanager
def build_client(settings: Mapping[str, str]) -> Iterator[Client]:
    """Builds the service of some settings, with a client."""
    service = build(read_settings({**LAPTOP, **settings}))

    async def close() -> None:
        if service.memory is not None:
            await service.memory.close()

    try:
        yield Client(service)
    finally:
        asyncio.run(close())


class FakeClock:
    """A clock that a test moves."""

    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


@pytest.fixture(scope="module")
def account() -> Iterator[FakeCosmos]:
    with run_cosmos() as fake:
        yield fake


STORES = [
    pytest.param("sqlite", marks=pytest.mark.part("memory-file")),
    pytest.param("cosmos", marks=pytest.mark.part("cosmos")),
]


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "sqlite":
        return sqlite_store(tmp_path)
    account: FakeCosmos = request.getfixturevalue("account")
    account.partitions.clear()
    return cosmos_store(account)
