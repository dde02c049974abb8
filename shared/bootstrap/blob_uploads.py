"""Makes the store of uploads in Azure, and the retriever of their index."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from shared.bootstrap.clients import Clients
from shared.domain.errors import Misconfigured
from shared.retrieval.base import EMPTY_INDEX, DocumentRetriever
from shared.settings import Settings, SettingsError, require_settings
from shared.uploads.base import UploadLimits

NO_ENDPOINT = "UPLOADS=on needs AZURE_UPLOADS_ENDPOINT anywhere else"
NEEDS_SIGN_IN = (
    "UPLOADS=on with AZURE_UPLOADS_ENDPOINT needs sign-in: an upload belongs to the user who sends "
    "it, and a key names nobody"
)
SAME_INDEX = (
    "AZURE_UPLOADS_INDEX must not be AZURE_SEARCH_INDEX: uploads have an index of their own"
)


@dataclass(frozen=True, slots=True)
class UploadsCheck:
    """The health check of uploads in Azure: of their container and of their index."""

    store: Any
    passages: DocumentRetriever
    name: ClassVar[str] = "blobs"

    async def ready(self) -> None:
        """Check that both are accessible. Raises ChatErrors."""
        await asyncio.gather(self.store.ready(), self._check_index())

    async def _check_index(self) -> None:
        try:
            await self.passages.ready()
        except Misconfigured as error:
            if error.cause != EMPTY_INDEX:  # nobody need have uploaded anything
                raise


def make_blob_uploads(clients: Clients, limits: UploadLimits) -> tuple[Any, DocumentRetriever]:
    """Make the store, and the retriever of its index. Raises SettingsError."""
    settings = clients.settings
    if not settings.website_auth_enabled and not settings.on_laptop:
        raise SettingsError((NEEDS_SIGN_IN,))
    check_index(settings)
    return make_blob_store(clients, limits), _make_retriever(clients)


def check_index(settings: Settings) -> None:
    """Raise SettingsError if uploads have no index of their own."""
    if settings.azure_uploads_index == settings.azure_search_index:
        raise SettingsError((SAME_INDEX,))


def make_blob_store(clients: Clients, limits: UploadLimits) -> Any:
    """Make the store. Raises SettingsError."""
    from shared.files.blobs import make_container_client
    from shared.uploads.blob.queue import UploadsQueue, make_queue_client
    from shared.uploads.blob.requests import CONTAINER, UploadsContainer
    from shared.uploads.blob.store import BlobUploads

    settings, credential = clients.settings, clients.identity
    names = "AZURE_UPLOADS_ENDPOINT", "AZURE_UPLOADS_QUEUE_ENDPOINT"
    endpoint, queue_endpoint = require_settings(settings, *names)
    client = make_container_client(endpoint, CONTAINER, credential)
    queue = make_queue_client(queue_endpoint, credential)
    seconds = settings.storage_seconds
    container = UploadsContainer(client, seconds)
    return BlobUploads(container, UploadsQueue(queue, seconds), limits)


def _make_retriever(clients: Clients) -> DocumentRetriever:
    """Make the retriever of the index, whose fields are always the app's own."""
    from shared.retrieval.azure_search.client import make_index
    from shared.retrieval.azure_search.index_fields import IndexFields
    from shared.retrieval.azure_search.retriever import AzureSearchRetriever

    settings = clients.settings
    names = "AZURE_SEARCH_ENDPOINT", "AZURE_UPLOADS_INDEX"
    endpoint, index = require_settings(settings, *names)
    return AzureSearchRetriever(
        index=make_index(endpoint, index, clients.identity),
        fields=IndexFields(),
        seconds=settings.search_seconds,
        embed=clients.embed,
    )
