"""Runs coroutines concurrently: all at once, as a bounded prefetch, or from a worker pool."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, TypeVar

MAX_CONCURRENT_REQUESTS = 4

T = TypeVar("T")


async def run_concurrently(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all coroutines and return their results. When one raises, the others are cancelled."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await _cancel(tasks)


async def prefetch(
    coroutines: Iterable[Coroutine[Any, Any, T]], limit: int
) -> AsyncGenerator[T, None]:
    """Yield the results in order, with at most `limit` coroutines started and not yet consumed.

    Started ones are cancelled when the caller stops or when one raises.
    """
    tasks: deque[asyncio.Task[T]] = deque()
    try:
        for coroutine in coroutines:
            tasks.append(asyncio.create_task(coroutine))
            if len(tasks) == limit:
                yield await tasks.popleft()
        while tasks:
            yield await tasks.popleft()
    finally:
        await _cancel(tasks)


async def for_each_concurrently(
    function: Callable[[T], Awaitable[None]], items: Iterable[T]
) -> None:
    """Call `function` with each item, `MAX_CONCURRENT_REQUESTS` at a time.

    Items are taken from the iterable only when a call can start. Raises the first error.
    """
    iterator = iter(items)

    async def work() -> None:
        for item in iterator:
            await function(item)

    await run_concurrently(work() for _ in range(MAX_CONCURRENT_REQUESTS))


async def _cancel(tasks: Collection[asyncio.Task[T]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
