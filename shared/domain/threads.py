"""Runs work on large inputs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread_if(large: bool, work: Callable[[], T]) -> T:
    """Run work in a thread if its input is large: it would hold up every other answer.

    With a small input it takes less time than the start of a thread.
    """
    return await asyncio.to_thread(work) if large else work()
