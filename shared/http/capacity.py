"""What an instance does at once: the answers in progress, and the bytes of bodies that arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from shared.domain.errors import Overloaded, TooManyRequests

LOOKUPS_AT_ONCE = 3  # each may take a thread; Python has five where there is one core
RETRY_SECONDS = 5  # in which some of the answers in progress end
USER_LIMIT_MESSAGE = (
    "{number} of your questions are being answered, as many as one person may have at once. "
    "Wait for an answer, then ask again."
)


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
