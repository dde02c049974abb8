"""Threads for large inputs, and time limits for a block and for the waits of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, closing
from types import TracebackType
from typing import TypeVar

from shared.domain.errors import DeadlineExceeded

T = TypeVar("T")


async def run_in_thread_if(large: bool, work: Callable[[], T]) -> T:
    """Run work in a thread if its input is large: it would hold up every other answer.

    With a small input it takes less time than the start of a thread.
    """
    return await asyncio.to_thread(work) if large else work()


@asynccontextmanager
async def time_limit(seconds: float | None, failure: DeadlineExceeded) -> AsyncIterator[None]:
    """Raise `failure` if the block takes longer; None is no limit. Other timeouts pass."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():  # the timeout of a caller
            raise
        raise failure from None


class TimeLimit:
    """Limits the waits of a stream: `with limit: event = await anext(events)`.

    One timer for all waits: `asyncio.timeout` around each would cost a timer a token.
    `deadline`, in seconds of the event loop's clock, may be moved between two waits. The waits may
    be in different tasks, one at a time. Raises TimeoutError; `expired` tells it from others.
    """

    def __init__(self, deadline: float) -> None:
        self.deadline, self.expired = deadline, False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None  # the one that waits
        self._cancelling = 0  # how often that task was cancelled before the wait

    def __enter__(self) -> None:
        """Begin a wait of the current task."""
        self.expired = False
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        if self._timer is None or self._timer.when() > self.deadline:
            self._start_timer()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """End a wait. Raises TimeoutError if it was cancelled at the deadline."""
        task, self._task = self._task, None
        if not self.expired or task is None:
            return
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self.deadline, self._on_time)

    def _on_time(self) -> None:
        """Cancel the wait, unless the deadline has moved. Without a wait, the next starts anew."""
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self.deadline:
            self._start_timer()
        else:
            self.expired = True
            self._task.cancel()


async def with_deadline(
    deadline: float, events: AsyncGenerator[T, None]
) -> AsyncGenerator[T, None]:
    """Yield the same events until `deadline`, in seconds of the event loop's clock.

    Raises DeadlineExceeded then. The limit is around each wait, not around the stream: the first
    event is read in another task than the rest, where a limit that spans a `yield` never fires.
    """
    with closing(TimeLimit(deadline)) as limit:
        async with aclosing(events):
            while True:
                try:
                    with limit:
                        event = await anext(events, None)
                except TimeoutError:
                    if not limit.expired:  # not this time limit
                        raise
                    raise DeadlineExceeded from None
                if event is None:
                    return
                yield event
