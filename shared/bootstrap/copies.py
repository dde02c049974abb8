"""Makes the store of answer copies, beside that of conversations."""

from __future__ import annotations

from shared.bootstrap.clients import Clients
from shared.memory.copies import AnswerCopies
from shared.settings import SHARED_FOLDER, SettingsError

NO_STORE = "FEEDBACK_COPIES needs stored conversations: set MEMORY_FILE or AZURE_COSMOS_ENDPOINT"


def find_copies(clients: Clients) -> AnswerCopies | None:
    """Make the store of answer copies, for new ones or for deletions; None without any store.

    Raises SettingsError.
    """
    settings = clients.settings
    has_store = settings.azure_cosmos_endpoint or settings.memory_file
    return make_copies(clients) if has_store or settings.feedback_copies == "on" else None


def make_copies(clients: Clients) -> AnswerCopies:
    """Make the store of answer copies. Raises SettingsError."""
    settings = clients.settings
    if settings.azure_cosmos_endpoint:
        return _open_cosmos_copies(clients, settings.azure_cosmos_endpoint)
    if settings.memory_file:
        return _open_sqlite_copies(clients, settings.memory_file)
    raise SettingsError((NO_STORE,))


def _open_cosmos_copies(clients: Clients, endpoint: str) -> AnswerCopies:
    from shared.memory.cosmos.copies import CONTAINER, open_copies
    from shared.memory.cosmos.items import ContainerLocation

    settings = clients.settings
    if settings.azure_cosmos_container == CONTAINER:
        raise SettingsError((f"AZURE_COSMOS_CONTAINER must not be {CONTAINER}: it has copies",))
    location = ContainerLocation(endpoint, settings.azure_cosmos_database, CONTAINER)
    days, seconds = settings.memory_days or None, settings.memory_seconds
    return open_copies(location, clients.identity, days, seconds)


def _open_sqlite_copies(clients: Clients, name: str) -> AnswerCopies:
    from shared.memory.sqlite.copies import open_copies

    settings = clients.settings
    days, seconds = settings.memory_days or None, settings.memory_seconds
    return open_copies(SHARED_FOLDER.parent / name, days, seconds)
