"""One HTTP call and its reply, the limits that hold for it, and a client that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from shared.chat.errors import (
    ClientDisconnected,
)

ByteStream = AsyncGenerator[bytes, None]
T = TypeVar("T")
MAX_HEADER_LENGTH = (
    2000  # characters of a header that is parsed here: parsers can take their square
)
# Ignored where they are longer: the routes that read them only read data.
OPTIONAL_HEADERS = frozenset(
    "accept if-match if-modified-since if-none-match if-range if-unmodified-since range "
    "traceparent tracestate".split()
)
DISCONNECT_POLL_SECONDS = 0.5  # seconds between two looks whether the client is still there


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request. `headers` by lower-case names; `is_disconnected`: the client has left.

    `body` is read once and raises ClientGone where the client breaks off. `path` is what stands
    in the route's place for it, decoded once; `query` are the parameters behind the question mark.
    """

    route: str
    method: str
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]
    is_disconnected: Callable[[], Awaitable[bool]]
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
    rest: ByteStream | None = None
    deadline: float = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of bodies in bytes, time limits in seconds.

    `memory_seconds` limits one call of the conversation store.
    """

    json_bytes: int = 4 * 1024 * 1024
    form_bytes: int = 20 * 1024 * 1024
    request_seconds: float = 120
    memory_seconds: float = 10

    @property
    def storage_seconds(self) -> float:
        """Seconds reserved for storing the answer: a quarter of the request's time at most."""
        return min(self.memory_seconds, self.request_seconds / 4)


def without_long_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers without the optional ones that are too long to be parsed."""
    long = {name for name in OPTIONAL_HEADERS if len(headers.get(name, "")) > MAX_HEADER_LENGTH}
    if "if-range" in long:  # a Range without its condition could mix two versions of a file
        long.add("range")
    return {name: value for name, value in headers.items() if name not in long}


async def cancel_on_disconnect(work: Awaitable[T], gone: Callable[[], Awaitable[bool]]) -> T:
    """Wait for `work`, looking after the client meanwhile. Raises ClientGone, `work` cancelled.

    Before a response starts nothing else tells that the client has left.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=DISCONNECT_POLL_SECONDS))[0]:
            if await gone():
                raise ClientDisconnected
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
