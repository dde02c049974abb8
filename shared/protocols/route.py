"""The route of a protocol, which the app registers and dispatches calls to."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from shared.domain.errors import MethodNotAllowed
from shared.http.call import Reply
from shared.protocols.exchange import ErrorFormat, Exchange

Handler = Callable[[Exchange], Awaitable[Reply]]
"""Answers a call, with a stream that is not started. Raises ChatErrors."""

READ = ("GET", "HEAD")
EVERY_METHOD = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path with its methods and its handler. `Call.path` has the value of its parameter.

    `errors` writes failures until the body is parsed. `auth` is the key that the host requires, if
    the settings require keys: "function", "anonymous" for none, "administrative" for a function
    key to read and the master key to change. `usage` is a correct call, for the message of a 405.
    `name` is the Azure function's and `pattern` its route, if they differ from `path`.
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
        """Raise MethodNotAllowed for a method that this route does not have."""
        check_method(method, self.methods, self.usage or f"{', '.join(self.methods)} {self.path}")


def check_method(method: str, allowed: Sequence[str], usage: str) -> None:
    """Raise MethodNotAllowed for a method that is not allowed."""
    if method not in allowed:
        raise MethodNotAllowed(f"Send {usage}.", allow=", ".join(allowed))


def function_name(path: str) -> str:
    """Return the name of an Azure function for a path."""
    return re.sub(r"[\W_]+", "_", path).strip("_") or "root"
