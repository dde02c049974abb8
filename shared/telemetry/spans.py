"""The interface of tracing: spans and the tracer that starts them.

Parents are explicit, not context variables: the first event of an answer is read in another task
than the rest, which would not see such a variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

AttributeValue = str | int | float | bool
Attributes = Mapping[str, AttributeValue]


class Span(Protocol):
    """A unit of work. Its creator ends it, once."""

    def start_child(self, name: str) -> Span:
        """Start a child span."""
        ...

    def set_attributes(self, attributes: Attributes) -> None:
        """Set attributes: numbers and names, never text of the conversation."""
        ...

    def add_event(self, name: str) -> None:
        """Add an event with the current time."""
        ...

    def end(self, error: str = "") -> None:
        """End the span; `error` is the name of the error if it failed."""
        ...


class Tracer(Protocol):
    """Starts the spans of requests."""

    def start_request(self, name: str, headers: Mapping[str, str]) -> Span:
        """Start the span of a request, as a child of the one in its `traceparent` header.

        `headers` have lower-case names.
        """
        ...


class NoopTracer:
    """A tracer and a span that do nothing, for use without an exporter."""

    def start_request(self, name: str, headers: Mapping[str, str]) -> Span:
        """Return itself."""
        return self

    def start_child(self, name: str) -> Span:
        """Return itself."""
        return self

    def set_attributes(self, attributes: Attributes) -> None:
        """Do nothing."""

    def add_event(self, name: str) -> None:
        """Do nothing."""

    def end(self, error: str = "") -> None:
        """Do nothing."""


NOOP_TRACER = NoopTracer()
