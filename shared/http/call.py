"""A call and its reply, their limits, and the JSON of a reply."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from shared.domain.errors import ClientDisconnected, Overloaded, TooManyRequests
from shared.domain.events import ByteStream

T = TypeVar("T")
Json = dict[str, Any]
MAX_HEADER_LENGTH = 2000  # characters of a parsed header: parsers can take quadratic time
# Ignored if longer: only routes that read data use them.
OPTIONAL_HEADERS = frozenset(
    "accept if-match if-modified-since if-none-match if-range if-unmodified-since range "
    "traceparent tracestate".split()
)
JSON, EVENTS = "application/json", "text/event-stream"
DISCONNECT_POLL_SECONDS = 0.5  # seconds between two checks of the connection
JSON_LINES_TYPES = ("application/jsonl", "application/json-lines", "application/x-ndjson")
# Allowed in a JSON string, but line readers split at them.
LINE_SEPARATORS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}
# Made once: `json.dumps` would make one for each line of a stream.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
LOOKUPS_AT_ONCE = 3  # each may take a thread; Python has five where there is one core
RETRY_SECONDS = 5  # in which some of the answers in progress end
USER_LIMIT_MESSAGE = (
    "{number} of your questions are being answered, as many as one person may have at once. "
    "Wait for an answer, then ask again."
)


@dataclass(frozen=True, slots=True)
class Call:
    """An HTTP request."""

    route: str
    method: str
    headers: Mapping[str, str]  # with lower-case names
    body: AsyncIterator[bytes]  # can be read once; raises ClientDisconnected
    is_disconnected: Callable[[], Awaitable[bool]]
    id: str
    path: str = ""  # the value of the route's parameter, decoded once
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response: a complete body, or a first chunk and the `rest` of a started stream."""

    status: int
    media_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    rest: ByteStream | None = None  # the sender closes it in any case
    # The sender closes `rest` soon after it, even if the client has stopped reading: by the event
    # loop's clock.
    deadline: float = 0
    # Writes an error after the first chunk as the last one; without it the reply is cut.
    write_last: Callable[[Json], bytes] | None = None


class AnswerSlots:
    """The answers in progress, at most `limit`, and at most half of them for one user."""

    def __init__(self, limit: int = 64) -> None:
        self._limit, self._user_limit = limit, max(1, limit // 2)
        self._answers = 0
        self._by_user = Counter[str]()

    def check(self) -> None:
        """Raise Overloaded if there is no free slot."""
        if self._answers >= self._limit:
            raise Overloaded(retry_after=RETRY_SECONDS)

    def acquire(self, user: str | None) -> Callable[[], None]:
        """Take a slot for a user, None if unknown, and return the function that releases it.

        Raises Overloaded, TooManyRequests.
        """
        self.check()
        if user is not None and self._by_user[user] >= self._user_limit:
            message = USER_LIMIT_MESSAGE.format(number=self._user_limit)
            raise TooManyRequests(message, retry_after=RETRY_SECONDS)
        self._answers += 1
        if user is not None:
            self._by_user[user] += 1
        return partial(self._release, user)

    def _release(self, user: str | None) -> None:
        self._answers -= 1
        if user is None:
            return
        self._by_user[user] -= 1
        if not self._by_user[user]:
            del self._by_user[user]


class BodyMemory:
    """The bytes of all bodies that are read at this moment, until they are parsed.

    Each body has `free` bytes, which are not counted, so that a question of the usual size is read
    however many large bodies arrive. All others together have `limit` bytes.
    """

    def __init__(self, limit: int = 256 * 1024 * 1024, free: int = 32 * 1024) -> None:
        self._available, self._free = limit, free

    @contextmanager
    def reserve(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts the next bytes of a body; it raises Overloaded."""
        free, counted = self._free, 0

        def count(size: int) -> None:
            nonlocal free, counted
            excess, free = max(0, size - free), max(0, free - size)
            if excess > self._available:
                raise Overloaded(retry_after=RETRY_SECONDS)
            self._available -= excess
            counted += excess

        try:
            yield count
        finally:
            self._available += counted


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the size of bodies in bytes, and of time in seconds."""

    json_bytes: int = 4 * 1024 * 1024
    form_bytes: int = 20 * 1024 * 1024
    request_seconds: float = 120
    memory_seconds: float = 10  # of one call of the conversation store
    body_seconds: float = 15  # until a body has arrived
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


def dumps(value: Any) -> bytes:
    """Encode JSON as UTF-8 without any line separator. Raises ValueError for inf and nan."""
    text = _ENCODER.encode(value)
    if not text.isascii():
        for character, escape in LINE_SEPARATORS.items():
            text = text.replace(character, escape)
    return text.encode(errors="replace")  # a model may send lone surrogates


def json_line(value: Json) -> bytes:
    """Encode a line of a stream, with "\\n": clients drop an unterminated last line."""
    return dumps(value) + b"\n"


def server_sent_event(value: Json) -> bytes:
    """Encode a server-sent event with a data line only: some clients support no other."""
    return b"data: " + dumps(value) + b"\n\n"


def acceptable_values(accept: str) -> Iterator[str]:
    """Yield what `Accept` or `Accept-Encoding` allows, such as media types, in lower case."""
    for part in re.sub(r"\s", "", accept).lower().split(","):
        if not re.search(r";q=0(?:\.0*)?(?:;|$)", part):
            yield part.partition(";")[0]


def negotiate_media_type(accept: str, default: str) -> str:
    """Return the media type of a stream: for JSON lines the first that `Accept` allows."""
    if default not in JSON_LINES_TYPES:
        return default
    media_types = acceptable_values(accept)
    return next((each for each in media_types if each in JSON_LINES_TYPES), default)
