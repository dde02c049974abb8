"""Calls to Azure AI Search about definitions of knowledge bases and sources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from azure.core.exceptions import ResourceNotFoundError

from ingest.targets.azure_search.retry import RetryPolicy

T = TypeVar("T")


async def call_service(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call with a few retries. Raises DocumentRejected."""
    return await RetryPolicy(max_attempts=3).call_with_retry(call, *args)


async def call_if_exists(call: Callable[[str], Awaitable[T]], name: str) -> T | None:
    """Call with a name; returns None where nothing has it. Raises DocumentRejected."""

    async def attempt() -> T | None:
        try:
            return await call(name)
        except ResourceNotFoundError:
            return None

    return await call_service(attempt)


def merge(existing: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with our values; others, such as a filter, are kept."""
    kept = {name: value for name, value in (existing or {}).items() if name != "@odata.etag"}
    return {**kept, **ours}
