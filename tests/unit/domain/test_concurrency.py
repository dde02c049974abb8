"""The time limit of a stream's waits: when it ends one, and when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import wraps
from typing import ParamSpec

import pytest

from shared.domain.concurrency import TimeLimit

P = ParamSpec("P")
SOON = 0.5  # seconds, which a wait for nothing does not take on a busy machine either
LONG = 3600.0  # seconds; a test that waited as long would hang


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a test in an event loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def body() -> None:
            await test(*args, **kwargs)

        asyncio.run(body())

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


@in_loop
async def test_a_wait_ends_at_the_deadline() -> None:
    with closing(TimeLimit(now() + 0.01)) as limit, pytest.raises(TimeoutError), limit:
        await asyncio.sleep(LONG)

    assert limit.expired


@in_loop
async def test_the_deadline_may_pass_between_two_waits() -> None:
    with closing(TimeLimit(now() + SOON)) as limit:
        with limit:
            await asyncio.sleep(0)
        await asyncio.sleep(SOON)  # what the consumer of a stream does is not limited
        with pytest.raises(TimeoutError), limit:
            await asyncio.sleep(LONG)

    assert limit.expired


@in_loop
async def test_the_deadline_can_be_moved_back() -> None:
    with closing(TimeLimit(now() + SOON)) as limit:
        with limit:
            await asyncio.sleep(0)
        limit.deadline = now() + LONG
        with limit:
            await asyncio.sleep(2 * SOON)

    assert not limit.expired


@in_loop
async def test_the_deadline_can_be_moved_forward() -> None:
    with closing(TimeLimit(now() + LONG)) as limit:
        with limit:
            await asyncio.sleep(0)
        limit.deadline = now() + 0.01
        with pytest.raises(TimeoutError), limit:
            await asyncio.sleep(LONG)

    assert limit.expired


@in_loop
async def test_another_task_may_wait_next() -> None:
    limit = TimeLimit(now() + SOON)

    async def wait(seconds: float) -> None:
        with limit:
            await asyncio.sleep(seconds)

    with closing(limit):
        await asyncio.create_task(wait(0))
        result = await asyncio.gather(asyncio.create_task(wait(LONG)), return_exceptions=True)

    assert isinstance(result[0], TimeoutError)


@in_loop
async def test_the_inner_limit_does_not_end_the_outer_one() -> None:
    outer, inner = TimeLimit(now() + LONG), TimeLimit(now() + 0.01)
    with closing(outer), closing(inner), outer:
        with pytest.raises(TimeoutError), inner:
            await asyncio.sleep(LONG)
        await asyncio.sleep(0)

    assert (outer.expired, inner.expired) == (False, True)


@in_loop
async def test_the_outer_limit_is_not_taken_for_the_inner_one() -> None:
    outer, inner = TimeLimit(now() + 0.01), TimeLimit(now() + LONG)
    with closing(outer), closing(inner), pytest.raises(TimeoutError), outer, inner:
        await asyncio.sleep(LONG)

    assert (outer.expired, inner.expired) == (True, False)


@in_loop
async def test_a_cancelled_task_stays_cancelled() -> None:
    async def wait() -> None:
        with closing(TimeLimit(now() + LONG)) as limit, limit:
            await asyncio.sleep(LONG)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()


@in_loop
async def test_a_time_limit_of_the_work_itself_is_passed_on() -> None:
    limit = TimeLimit(now() + LONG)
    with closing(limit), pytest.raises(TimeoutError, match="inner"), limit:
        raise TimeoutError("inner")

    assert not limit.expired
