"""How does Azure AI Search index a folder by itself? The files are uploaded; an indexer reads them.

For corpora beyond one machine. The service knows no pages of a PDF, and no acl.yaml.
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

# What the service needs beside the folder.
REQUIRED_SETTINGS = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
)


@dataclass(frozen=True, slots=True)
class UploadResult:
    """What became of the files on their way: how many were new, how many removed, which refused."""

    uploaded: int
    removed: int
    rejected: tuple[tuple[str, str], ...]


async def index_folder(
    settings: Settings, folder: Path, found: Listing, options: IngestOptions, say: Notify
) -> tuple[UploadResult, IndexerResult]:
    """Upload a folder's files, set the indexer up, and follow it.

    Raises Refused, SettingsError, and AclError where the index restricts one of the files.
    """
    refuse_acl(folder)
    check_search_fields(settings)
    endpoint, index, storage, *_ = configuration.require_settings(settings, *REQUIRED_SETTINGS)
    await check_restricted_files(settings, folder, options, public_by_default(found, Acl()), say)
    clients = Clients(settings, batch=True)
    patience = RetryPolicy(role_wait=options.role_wait, notify=say)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        files = make_uploader(storage, settings.storage_container, clients.identity)
        stack.push_async_callback(files.close)
        search = make_clients(endpoint, index, clients.identity)
        stack.push_async_callback(search.close)
        dimensions = await get_embedding_dimensions(settings)
        made = build_index_spec(
            settings.model_copy(update={"search_vectorizer": True}), dimensions, options
        )
        plan = IndexerPlan(made, options.storage_id or "", settings.storage_container)
        uploaded = await upload_files(files, found, options, say)
        filled = await run_indexer(search, plan, patience)
    return uploaded, filled


async def upload_files(
    files: BlobUploader, found: Listing, options: IngestOptions, say: Notify
) -> UploadResult:
    """Bring the container up to the folder. A file that it does not take is skipped.

    Raises Refused, before anything is uploaded, where the container has files of elsewhere.
    """
    await files.ensure_container()
    gone = sorted(set(await files.list_names()) - {file.name for file in found.files})
    if gone and not options.prune:
        raise DocumentRejected(UNKNOWN_FILES.format(number=len(gone), name=gone[0]))
    for name in gone:
        await files.remove(name)
    new, refused = 0, []
    for number, file in enumerate(found.files, 1):
        try:
            new += await _upload_file(files, file, options.max_megabytes * MEGABYTE)
        except DocumentRejected as failure:
            refused.append((file.name, str(failure)))
        if number % 100 == 0:
            say(f"{number} of {len(found.files)} files are uploaded.")
    return UploadResult(new, len(gone), tuple(refused))


async def _upload_file(files: BlobUploader, file: SourceFile, largest: int) -> bool:
    """Upload a file; whether that was needed. One that is too large is taken away."""
    try:
        size = file.path.stat().st_size
    except OSError as error:
        raise DocumentRejected(f"It cannot be opened: {error.strerror}.") from error
    if size > largest:
        await files.remove(file.name)
        raise DocumentRejected(too_large_message(largest))
    return await files.put(
        file.name, file.path, guess_media_type(file.name), blob_metadata(file.name)
    )


def blob_metadata(name: str) -> dict[str, str]:
    """What a file's blob must be told for an indexer to know its passages' names; in ASCII."""
    folder, slash, _ = name.partition("/")
    said = {"sourcefile": encode_path(name), "category": folder if slash else ""}
    return {key: quote(value) for key, value in said.items() if value}
