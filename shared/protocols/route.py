"""A route of a protocol: what the app needs to register it and to dispatch a call to it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from shared.chat.errors import MethodNotAllowed
from shared.http.call import Reply
from shared.protocols.exchange import ErrorFormat, Exchange

Handler = Callable[[Exchange], Awaitable[Reply]]
"""Answers a call. Its reply's stream has not begun. Raises ChatErrors."""

READ = ("GET", "HEAD")
EVERY_METHOD = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path with its methods and its handler. What is in braces is in `Call.path`.

    `errors` writes failures until the body is read. `auth` is the key that the host asks for,
    where the settings want keys: "function", "anonymous" for none, "administrative" for a function
    key to read and the master key to change. `usage` is the right call, as a 405 shows it. `name`
    is the Azure function's, `pattern` its route, where they are not made of `path`.
    """

    path: str
    methods: Sequence[str]
    handler: Handler
    errors: ErrorFormat
    auth: Literal["function", "anonymous", "administrative"] = "function"
    usage: str = ""
    name: str = ""
    pattern: str = ""

    def check_method(self, method: str) -> None:
        """Raise MethodNotAllowed where it is none of this route's."""
        check_method(method, self.methods, self.usage or f"{', '.join(self.methods)} {self.path}")


def check_method(method: str, allowed: Sequence[str], usage: str) -> None:
    """Raise MethodNotAllowed for a method that is not allowed."""
    if method not in allowed:
        raise MethodNotAllowed(f"Send {usage}.", allow=", ".join(allowed))


def function_name(path: str) -> str:
    """The words of a path, as the name of an Azure function."""
    return re.sub(r"[\W_]+", "_", path).strip("_") or "root"
