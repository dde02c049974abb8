"""Makes the store of conversations."""

from __future__ import annotations

from shared.bootstrap.clients import Clients
from shared.memory.base import Memory, Retention
from shared.settings import SHARED_FOLDER, Settings


def make_memory(clients: Clients) -> Memory | None:
    """Make the store of conversations; None if they are not stored."""
    settings = clients.settings
    retention = Retention(
        settings.retention_seconds,
        settings.max_conversations,
        settings.max_stored_megabytes * 1_000_000,
    )
    if settings.azure_cosmos_endpoint:
        return _make_cosmos_memory(clients, settings.azure_cosmos_endpoint, retention)
    if settings.memory_file:
        return _make_sqlite_memory(settings, settings.memory_file, retention)
    return None


def _make_cosmos_memory(clients: Clients, endpoint: str, retention: Retention) -> Memory:
    from shared.memory.cosmos.items import ContainerLocation
    from shared.memory.cosmos.store import open_cosmos

    settings = clients.settings
    names = settings.azure_cosmos_database, settings.azure_cosmos_container
    location = ContainerLocation(endpoint, *names)
    return open_cosmos(location, clients.identity, retention, settings.memory_seconds)


def _make_sqlite_memory(settings: Settings, name: str, retention: Retention) -> Memory:
    from shared.memory.sqlite.store import open_memory

    return open_memory(SHARED_FOLDER.parent / name, retention, settings.memory_seconds)
