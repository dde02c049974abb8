"""A route that reads a body, and the schema of that body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.schemas import Place, Schema, keys, places, sample

Json = dict[str, Any]
QUESTION = {"role": "user", "content": "What is in Plus?"}
CHAIN = 4096  # stored turns, each behind the one before
# A conversation and an interaction that are stored, in the path of a request.
CONVERSATION, INTERACTION = "conversation", "interaction"


def unchanged(body: Any) -> Any:
    """Return the body itself."""
    return body


def ask(body: Json) -> Json:
    """Return a chat that ends with a question of the user's."""
    key = "input" if "input" in body else "messages"
    return {**body, key: [*body.get(key, ()), QUESTION]}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route, the schema of its body, and how a body of that schema becomes a valid one."""

    route: str
    schema: Schema
    complete: Callable[[Any], Any] = unchanged
    method: str = "POST"
    path: str = ""

    @property
    def name(self) -> str:
        """Its method, unless it is POST, and its route."""
        return f"{'' if self.method == 'POST' else self.method + ' '}{self.route}"

    def places(self) -> Iterator[Place]:
        """Yield the lists of its body, and its unknown keys."""
        yield from places(self.schema)
        if self.schema.get("type") == "object":
            rest = sample(self.schema)
            yield Place("{}", lambda count: {**rest, **keys(count)}, valid=False)


Chain = Sequence[tuple[Endpoint, str, Callable[[int], bytes]]]
"""Requests that refer to a number of stored turns, with the kind of each."""
