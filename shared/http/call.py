"""One HTTP call and its reply, the limits that hold for it, and a client that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from shared.chat.errors import (
    ClientDisconnected,
)

Bytes = AsyncGenerator[bytes, None]
T = TypeVar("T")
MAX_HEADER = 2000  # characters of a header that is parsed here: parsers can take their square
# Ignored where they are longer: the routes that read them only read data.
OPTIONAL_HEADERS = frozenset(
    "accept if-match if-modified-since if-none-match if-range if-unmodified-since range "
    "traceparent tracestate".split()
)
GONE_EVERY = 0.5  # seconds between two looks whether the client is still there


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request. `headers` by lower-case names; `disconnected`: the client has left.

    `body` is read once and raises ClientGone where the client breaks off. `path` is what stands
    in the route's place for it, decoded once; `query` are the parameters behind the question mark.
    """

    route: str
    method: str
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]
    disconnected: Callable[[], Awaitable[bool]]
    id: str
    path: str = ""
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP response: a whole body, or a first piece and a stream that has already begun.

    Whoever sends it closes `rest`, read to its end or not, soon after `deadline` (the event loop's
    clock, in seconds) also where the client has stopped reading.
    """

    status: int
    media_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    rest: Bytes | None = None
    deadline: float = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """How large bodies may be, in bytes; how long a request may take in all, in seconds.

    `memory` is how long a memory may take for one call. An answer that is to be stored ends so much
    earlier, but by a quarter of its time at most: a slow memory costs no answer.
    """

    json: int = 4 * 1024 * 1024
    form: int = 20 * 1024 * 1024
    seconds: float = 120
    memory: float = 10

    @property
    def kept_back(self) -> float:
        """The seconds of a request that are for storing its answer."""
        return min(self.memory, self.seconds / 4)


def without_long_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers without the optional ones that are too long to be parsed."""
    long = {name for name in OPTIONAL_HEADERS if len(headers.get(name, "")) > MAX_HEADER}
    if "if-range" in long:  # a Range without its condition could mix two versions of a file
        long.add("range")
    return {name: value for name, value in headers.items() if name not in long}


async def cancel_on_disconnect(work: Awaitable[T], gone: Callable[[], Awaitable[bool]]) -> T:
    """Wait for `work`, looking after the client meanwhile. Raises ClientGone, `work` cancelled.

    Before a response starts nothing else tells that the client has left.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=GONE_EVERY))[0]:
            if await gone():
                raise ClientDisconnected
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
