"""What the functions of the app that reads uploads call, and how it is made from the settings."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ingest.enrich import Enricher
from ingest.sandbox import SandboxReader, SandboxStartError
from ingest.setup import IngestOptions, build_enricher, build_index_spec, read_prompt
from ingest.storage_retry import make_retry_policy
from ingest.targets.azure_search.existing_index import ExistingIndexWriter
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.azure_search.writer import make_clients
from ingest.targets.index_writer import DocumentRejected
from ingest.uploads.blob_run import BlobRun, is_path
from ingest.uploads.blobs import BlobSource
from ingest.uploads.index import UploadsIndex
from ingest.uploads.indexer import UploadIndexer, make_reader
from ingest.uploads.sweep import UploadsSweep
from shared.bootstrap.blob_uploads import check_index
from shared.bootstrap.clients import Clients
from shared.domain.errors import ChatError
from shared.files.blobs import make_container_client
from shared.settings import MIB, Settings, require_settings
from shared.uploads.blob.queue import UploadsQueue, make_queue_client
from shared.uploads.blob.requests import CONTAINER, UploadsContainer

log = logging.getLogger("uploads")

WORK_SECONDS = 1_500.0  # for an upload: less than `functionTimeout` of host.json, which kills
REQUEST_SECONDS = 60.0  # of a request to the container, with its retries
# Settings that are about the shared documents: the index of uploads is in the project's schema, and
# nothing of an upload is stored outside of it.
OTHERS: dict[str, Any] = {
    "azure_search_fields": None,
    "azure_search_permissions": "filter",
    "azure_search_vectorizer": False,
    "azure_search_semantic_configuration": None,
    "azure_search_knowledge_base": None,
    "azure_search_knowledge_sources": (),
    "azure_storage_endpoint": None,
    "retriever": None,
}


@dataclass(frozen=True, slots=True)
class UploadService:
    """Reads and removes uploads. All methods raise exceptions after which to try again."""

    source: BlobSource
    reader: SandboxReader
    enricher: Enricher
    max_pages: int
    make_index: Callable[[], UploadsIndex]  # for one call of a method
    send: Callable[[str], Awaitable[None]]  # sends the message of an upload
    now: Callable[[], float] = time.time  # in seconds since 1970

    async def read(self, message: str) -> None:
        """Read or remove the upload of a message."""
        with _log_failures(message):
            if is_path(message):
                await self._make_run().read(message)

    async def give_up(self, message: str) -> None:
        """Store that the upload of a message could not be read so often."""
        with _log_failures(message):
            if is_path(message):
                await self._make_run().give_up(message)

    async def sweep(self) -> None:
        """Send messages for uploads that ended attempts have left, and remove what is unused."""
        run = self._make_run()
        sweep = UploadsSweep(
            self.source.container, run.index, self.send, run.indexer.fingerprint, self.now
        )
        with _log_failures("sweep"):
            await sweep.run()

    def _make_run(self) -> BlobRun:
        index = self.make_index()
        parts = (self.source, self.reader, index, self.enricher, self.max_pages)
        indexer = UploadIndexer(*parts, seconds=WORK_SECONDS)
        return BlobRun(self.source, index, indexer, self.now)


@contextmanager
def _log_failures(what: str) -> Iterator[None]:
    """Log what an operator needs to know about an exception, which the caller gets, too."""
    try:
        yield
    except (ChatError, DocumentRejected, SandboxStartError, TimeoutError) as error:
        cause = getattr(error, "cause", None)
        log.error("uploads: %.60s: %s%s", what, error, f" ({cause})" if cause else "")
        raise


def make_service(settings: Settings) -> UploadService:
    """Make the service. Raises SettingsError."""
    endpoint, queue_endpoint, search_endpoint, index = require_settings(
        settings,
        "AZURE_UPLOADS_ENDPOINT",
        "AZURE_UPLOADS_QUEUE_ENDPOINT",
        "AZURE_SEARCH_ENDPOINT",
        "AZURE_UPLOADS_INDEX",
    )
    check_index(settings)
    own = settings.model_copy(update={**OTHERS, "azure_search_index": index})
    clients = Clients(own, batch=True)
    spec = build_index_spec(own, 0, IngestOptions(folder=None))
    search = make_clients(search_endpoint, index, clients.identity)
    file_bytes = own.max_upload_megabytes * MIB
    container = make_container_client(
        endpoint, CONTAINER, clients.identity, retry_policy=make_retry_policy()
    )

    def make_index() -> UploadsIndex:
        retry = RetryPolicy(max_attempts=5, max_wait=60)
        return ExistingIndexWriter(search, spec, retry, has_vectors=clients.embed is not None)

    return UploadService(
        BlobSource(UploadsContainer(container, REQUEST_SECONDS), file_bytes),
        make_reader(file_bytes, files_per_process=1),  # the next file is another person's
        build_enricher(clients, read_prompt()),
        own.max_upload_pages,
        make_index,
        UploadsQueue(make_queue_client(queue_endpoint, clients.identity)).send,
    )
