"""Opens the clients of a search service for a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ingest.targets.azure_search.writer import SearchClients, make_clients
from shared.bootstrap.clients import Clients
from shared.settings import Settings, require_settings


@asynccontextmanager
async def open_service(
    settings: Settings, index: str
) -> AsyncIterator[tuple[Clients, SearchClients]]:
    """Yield the clients of a command, and those of its index; both are closed at the end.

    Raises SettingsError.
    """
    (endpoint,) = require_settings(settings, "AZURE_SEARCH_ENDPOINT")
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        search = make_clients(endpoint, index, clients.identity)
        stack.push_async_callback(search.close)
        yield clients, search
