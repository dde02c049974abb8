"""The official Python client of MCP, connected to a running app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from tests.support.servers import TIMEOUT

# The modes of the client, and the version that it and the app agree on.
VERSIONS = {"2026-07-28": "2026-07-28", "auto": "2026-07-28", "legacy": "2025-11-25"}

T = TypeVar("T")


@asynccontextmanager
async def connect(
    url: str, mode: str = "auto", headers: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """Yields a connected client."""
    async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT, trust_env=False) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def run_client(
    url: str,
    work: Callable[[Client], Awaitable[T]],
    mode: str = "auto",
    headers: Mapping[str, str] | None = None,
) -> T:
    """Runs `work` with a connected client; returns its result, or raises its error."""

    async def run() -> T:
        async with connect(url, mode, headers) as client:
            # Raised in the block, an error would be wrapped in the groups of the client's tasks.
            (result,) = await asyncio.gather(work(client), return_exceptions=True)
        if isinstance(result, BaseException):
            raise result
        return result

    return asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Calls a tool that succeeds and returns its structured content."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    return result.structured_content
