"""A filter over a stream: one time limit for the whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from shared.chat.errors import DeadlineExceeded

T = TypeVar("T")


async def with_deadline(
    deadline: float, events: AsyncGenerator[T, None]
) -> AsyncGenerator[T, None]:
    """The same events, until the event loop's clock shows `deadline`, in seconds.

    Raises DeadlineExceeded then. The limit is set anew around each event: the first is read in
    another task than the rest, and a time limit that spans a `yield` never fires there.
    """
    async with aclosing(events):
        while True:
            try:
                async with asyncio.timeout_at(deadline) as limit:
                    event = await anext(events, None)
            except TimeoutError:
                if not limit.expired():  # somebody else's
                    raise
                raise DeadlineExceeded from None
            if event is None:
                return
            yield event
