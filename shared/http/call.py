"""An HTTP call and its reply, their limits, and the detection of a disconnected client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from shared.domain.errors import ClientDisconnected
from shared.domain.events import ByteStream
from shared.http.capacity import BodyMemory

T = TypeVar("T")
MAX_HEADER_LENGTH = 2000  # characters of a parsed header: parsers can take quadratic time
# Ignored if longer: only routes that read data use them.
OPTIONAL_HEADERS = frozenset(
    "accept if-match if-modified-since if-none-match if-range if-unmodified-since range "
    "traceparent tracestate".split()
)
DISCONNECT_POLL_SECONDS = 0.5  # seconds between two checks of the connection


@dataclass(frozen=True, slots=True)
class Call:
    """An HTTP request. `headers` have lower-case names.

    `body` can be read once and raises ClientDisconnected. `path` is the value of the route's
    parameter, decoded once; `query` holds the query parameters.
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
    """An HTTP response: a complete body, or a first chunk and the `rest` of a started stream.

    The sender closes `rest` in any case, and soon after `deadline` (seconds of the event loop's
    clock) even if the client has stopped reading.
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

    A body must arrive within `body_seconds`; `body_memory` limits the bytes of all bodies together.
    `memory_seconds` limits one call of the conversation store.
    """

    json_bytes: int = 4 * 1024 * 1024
    form_bytes: int = 20 * 1024 * 1024
    request_seconds: float = 120
    memory_seconds: float = 10
    body_seconds: float = 15
    body_memory: BodyMemory = field(default_factory=BodyMemory)

    @property
    def storage_seconds(self) -> float:
        """Seconds reserved for storing the answer: a quarter of the request's time at most."""
        return min(self.memory_seconds, self.request_seconds / 4)


def without_long_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers without the optional ones that are too long to be parsed."""
    long = {name for name in OPTIONAL_HEADERS if len(headers.get(name, "")) > MAX_HEADER_LENGTH}
    if "if-range" in long:  # a Range without its condition could mix two versions
        long.add("range")
    return {name: value for name, value in headers.items() if name not in long}


async def cancel_on_disconnect(
    work: Awaitable[T], is_disconnected: Callable[[], Awaitable[bool]]
) -> T:
    """Await `work`; cancel it and raise ClientDisconnected if the client leaves.

    Before a response starts, the server reports a disconnect only when asked.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=DISCONNECT_POLL_SECONDS))[0]:
            if await is_disconnected():
                raise ClientDisconnected
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
