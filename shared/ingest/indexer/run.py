"""Uploads a folder's files and lets an indexer of Azure AI Search read them.

For large corpora. The service knows no pages of a PDF and no acl.yaml.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from shared import settings as configuration
from shared.bootstrap.clients import Clients
from shared.chat.citation_paths import encode_path
from shared.files.media_types import guess_media_type
from shared.ingest.acl_check import check_restricted_files, public_by_default
from shared.ingest.document import MEGABYTE, too_large_message
from shared.ingest.indexer.definitions import IndexerPlan
from shared.ingest.indexer.indexer import IndexerResult, refuse_acl, run_indexer
from shared.ingest.setup import (
    IngestOptions,
    Notify,
    build_index_spec,
    check_search_fields,
    get_embedding_dimensions,
)
from shared.ingest.sources.acl import Acl
from shared.ingest.sources.scan import Listing, SourceFile
from shared.ingest.targets.azure_search.retry import RetryPolicy
from shared.ingest.targets.azure_search.search_clients import make_clients
from shared.ingest.targets.blob_upload import BlobUploader, make_uploader
from shared.ingest.targets.index_writer import DocumentRejected
from shared.settings import Settings

UNKNOWN_FILES = (
    "The container has {number} files that are not in the folder, such as {name}: the indexer "
    "would make passages of them that everyone finds. --prune removes them."
)

# The settings that an indexer needs.
REQUIRED_SETTINGS = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
)


@dataclass(frozen=True, slots=True)
class UploadResult:
    """The number of uploaded and removed files, and the rejected files with the reason."""

    uploaded: int
    removed: int
    rejected: tuple[tuple[str, str], ...]


async def index_folder(
    settings: Settings, folder: Path, listing: Listing, options: IngestOptions, notify: Notify
) -> tuple[UploadResult, IndexerResult]:
    """Upload a folder's files, set the indexer up, and follow it.

    Raises DocumentRejected, SettingsError, and AclError where the index restricts one of the files.
    """
    refuse_acl(folder)
    check_search_fields(settings)
    endpoint, index, storage, *_ = configuration.require_settings(settings, *REQUIRED_SETTINGS)
    await check_restricted_files(
        settings, folder, options, public_by_default(listing, Acl()), notify
    )
    clients = Clients(settings, batch=True)
    retry_policy = RetryPolicy(role_wait=options.role_wait, notify=notify)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        files = make_uploader(storage, settings.storage_container, clients.identity)
        stack.push_async_callback(files.close)
        search = make_clients(endpoint, index, clients.identity)
        stack.push_async_callback(search.close)
        dimensions = await get_embedding_dimensions(settings)
        index_spec = build_index_spec(
            settings.model_copy(update={"search_vectorizer": True}), dimensions, options
        )
        plan = IndexerPlan(index_spec, options.storage_id or "", settings.storage_container)
        uploads = await upload_files(files, listing, options, notify)
        result = await run_indexer(search, plan, retry_policy)
    return uploads, result


async def upload_files(
    files: BlobUploader, listing: Listing, options: IngestOptions, notify: Notify
) -> UploadResult:
    """Update the container from the folder; rejected files are skipped.

    Raises DocumentRejected, before any upload, if the container has files of other origin.
    """
    await files.ensure_container()
    stale = sorted(set(await files.list_names()) - {file.name for file in listing.files})
    if stale and not options.prune:
        raise DocumentRejected(UNKNOWN_FILES.format(number=len(stale), name=stale[0]))
    for name in stale:
        await files.remove(name)
    uploaded, rejected = 0, []
    for number, file in enumerate(listing.files, 1):
        try:
            uploaded += await _upload_file(files, file, options.max_megabytes * MEGABYTE)
        except DocumentRejected as failure:
            rejected.append((file.name, str(failure)))
        if number % 100 == 0:
            notify(f"{number} of {len(listing.files)} files are uploaded.")
    return UploadResult(uploaded, len(stale), tuple(rejected))


async def _upload_file(files: BlobUploader, file: SourceFile, max_bytes: int) -> bool:
    """Upload a file if it has changed; returns whether it was. One that is too large is removed."""
    try:
        size = file.path.stat().st_size
    except OSError as error:
        raise DocumentRejected(f"It cannot be opened: {error.strerror}.") from error
    if size > max_bytes:
        await files.remove(file.name)
        raise DocumentRejected(too_large_message(max_bytes))
    return await files.put(
        file.name, file.path, guess_media_type(file.name), blob_metadata(file.name)
    )


def blob_metadata(name: str) -> dict[str, str]:
    """The blob metadata from which the indexer sets the fields of passages; in ASCII."""
    folder, slash, _ = name.partition("/")
    values = {"sourcefile": encode_path(name), "category": folder if slash else ""}
    return {key: quote(value) for key, value in values.items() if value}
