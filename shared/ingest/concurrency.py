"""Work that is done side by side: the next file is read while this one is put."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of `works`, done side by side. Where one raises, the others are cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def ahead(works: Iterable[Coroutine[Any, Any, T]], most: int) -> AsyncGenerator[T, None]:
    """The results of `works` in their order, at most `most` of them begun and not yet taken.

    What is begun is cancelled when the caller stops, or when one raises.
    """
    begun: deque[asyncio.Task[T]] = deque()
    try:
        for work in works:
            begun.append(asyncio.create_task(work))
            if len(begun) == most:
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
