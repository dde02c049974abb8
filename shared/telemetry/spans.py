"""The seam behind which spans go: what took how long, told to whoever collects it.

A span's parent is an argument, never a context variable: the first event of an answer is read in
another task than the rest, where such a variable is unset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]


class Span(Protocol):
    """One piece of work. Whoever makes it ends it, once."""

    def start_child(self, name: str) -> Span:
        """A piece of this piece, which begins now."""
        ...

    def set_attributes(self, facts: Attributes) -> None:
        """Say what is known of it: numbers and names, never a word of what was said."""
        ...

    def add_event(self, name: str) -> None:
        """Something happened now."""
        ...

    def end(self, error: str = "") -> None:
        """It ends now; `error` is the name of what it failed with, if it failed."""
        ...


class Tracer(Protocol):
    """Begins the span of a request, beneath the caller's own where the headers name one."""

    def start_request(self, name: str, headers: Mapping[str, str]) -> Span:
        """The span of one request, which begins now. `headers` by lower-case names."""
        ...


class NoopTracer:
    """What spans are while nobody collects them: a tracer and a span that do nothing."""

    def start_request(self, name: str, headers: Mapping[str, str]) -> Span:
        """Itself."""
        return self

    def start_child(self, name: str) -> Span:
        """Itself."""
        return self

    def set_attributes(self, facts: Attributes) -> None:
        """Nothing."""

    def add_event(self, name: str) -> None:
        """Nothing."""

    def end(self, error: str = "") -> None:
        """Nothing."""


NOOP_TRACER = NoopTracer()
