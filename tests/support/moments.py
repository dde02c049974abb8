"""Ends a process at its nth moment: before or after a call."""

from __future__ import annotations

from typing import Any


class Killed(BaseException):
    """The process ends."""


class Moments:
    """Ends the process before or after the nth call of what it wraps."""

    def __init__(self, limit: int) -> None:
        self.limit, self.count = limit, 0

    def pass_moment(self) -> None:
        self.count += 1
        if self.count == self.limit:
            raise Killed

    def wrap(self, target: Any) -> Any:
        moments = self

        class Wrapped:
            def __getattr__(self, name: str) -> Any:
                async def call(*args: Any) -> Any:
                    moments.pass_moment()
                    result = await getattr(target, name)(*args)
                    moments.pass_moment()
                    return result

                return call

        return Wrapped()
