"""Uploads a folder's files and lets an indexer of Azure AI Search read them.

For large corpora. The service knows no pages of a PDF and no acl.yaml."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.search.documents.indexes.models import IndexerExecutionResult
from tqdm import tqdm

from ingest import setup
from ingest.acl import ACL_FILE, Acl
from ingest.document import MEGABYTE, too_large_message
from ingest.indexer import definitions
from ingest.indexer.definitions import IndexerPlan
from ingest.scan import FolderFile, Listing
from ingest.targets.azure_search import index_update
from ingest.targets.azure_search.blob_upload import BlobUploader, make_uploader
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.azure_search.service import open_service
from ingest.targets.azure_search.writer import SearchClients
from ingest.targets.index_writer import DocumentRejected, IndexUnavailable
from shared import settings as configuration
from shared.domain.events import encode_path
from shared.files.headers import guess_media_type
from shared.settings import Settings

POLL_SECONDS = 10
MAX_SECONDS = 7200  # the service ends a run of an indexer after two hours
MAX_ERROR_LENGTH = 300  # characters of the service's message
RUNNING = ("inProgress", "reset")

ACL_UNSUPPORTED = (
    "There is an acl.yaml in {folder}: an indexer does not know who may see what, so every passage "
    "would be public. Index this folder without --indexer."
)
STILL_RUNNING = (
    "The indexer {name} is still at work after {minutes} minutes. It goes on without this command; "
    "run it again to follow it."
)
WRONG_KEY_ANALYZER = (
    "The key {key} of the index {index} has not the analyzer keyword, which an indexer needs: "
    f"{index_update.OTHER_INDEX}."
)
PROGRESS = "{} files so far, {} of them failed."
FAILED = "The indexer {name} ended with an error: {why}"
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

FileFailure = tuple[str, str]  # a file's name, and why it was not taken


@dataclass(frozen=True, slots=True)
class UploadResult:
    """The number of uploaded and removed files, and the rejected files with the reason."""

    uploaded: int
    removed: int
    rejected: tuple[FileFailure, ...]


@dataclass(frozen=True, slots=True)
class IndexerResult:
    """The result of a run: the number of indexed files, failed files, files with a warning."""

    indexed: int
    failed: tuple[FileFailure, ...]
    warnings: tuple[FileFailure, ...]


def refuse_acl(folder: Path) -> None:
    """Raise DocumentRejected where a folder has access rules."""
    if any(folder.rglob(ACL_FILE)):
        raise DocumentRejected(ACL_UNSUPPORTED.format(folder=folder))


async def create_indexer(
    clients: SearchClients, plan: IndexerPlan, retry_policy: RetryPolicy
) -> None:
    """Create or update the index, data source, skillset and indexer. Raises DocumentRejected.

    The search service's own identity needs the roles Storage Blob Data
    Reader on the storage account and Cognitive Services OpenAI User on the model's resource.
    """
    index, _ = await index_update.create_or_update(clients.indexes, plan.index_spec, retry_policy)
    key = next(field for field in index.fields if field.key)
    if key.analyzer_name != index_update.KEY_ANALYZER:
        raise IndexUnavailable(WRONG_KEY_ANALYZER.format(key=key.name, index=index.name))
    indexers = clients.indexers
    steps: tuple[tuple[Callable[..., Awaitable[Any]], Any], ...] = (
        (indexers.create_or_update_data_source_connection, definitions.build_data_source(plan)),
        (indexers.create_or_update_skillset, definitions.build_skillset(plan)),
        (indexers.create_or_update_indexer, definitions.build_indexer(plan)),
    )
    for create, definition in steps:
        await retry_policy.call_with_retry(create, definition)
        retry_policy.notify(f"{definition.name} is set up.")


async def run_indexer(
    clients: SearchClients,
    plan: IndexerPlan,
    retry_policy: RetryPolicy,
    max_seconds: float = MAX_SECONDS,
) -> IndexerResult:
    """Create the indexer, run it, and follow it for `max_seconds`. Raises DocumentRejected.

    A run that is already in progress is followed.
    """
    call, name = retry_policy.call_with_retry, plan.indexer_name
    before = await call(_get_last_run, clients, name)
    previous_start = before.start_time if before and before.status != "inProgress" else None
    await create_indexer(clients, plan, retry_policy)
    await call(_start_run, clients, name)
    progress = ""
    for _ in range(max(1, int(max_seconds / POLL_SECONDS))):
        await retry_policy.sleep(POLL_SECONDS)
        last = await call(_get_last_run, clients, name)
        if last is None or last.start_time == previous_start:
            continue
        if last.status not in RUNNING:
            return _to_result(plan, last)
        previous, progress = progress, PROGRESS.format(last.item_count, last.failed_item_count)
        if progress != previous:
            retry_policy.notify(progress)
    raise DocumentRejected(STILL_RUNNING.format(name=name, minutes=round(max_seconds / 60)))


async def _get_last_run(clients: SearchClients, name: str) -> IndexerExecutionResult | None:
    """The latest run of an indexer; None where there is none yet, or no indexer."""
    try:
        return (await clients.indexers.get_indexer_status(name)).last_result
    except ResourceNotFoundError:
        return None


async def _start_run(clients: SearchClients, name: str) -> None:
    with suppress(ResourceExistsError):  # a run is in progress
        await clients.indexers.run_indexer(name)


def _to_result(plan: IndexerPlan, last: IndexerExecutionResult) -> IndexerResult:
    if last.status != "success":
        reason = _single_line(last.error_message or last.status)
        raise DocumentRejected(FAILED.format(name=plan.indexer_name, why=reason))
    return IndexerResult(
        indexed=last.item_count - last.failed_item_count,
        failed=tuple(_to_failure(plan, item.key, item.error_message) for item in last.errors),
        warnings=tuple(_to_failure(plan, item.key, item.message) for item in last.warnings),
    )


def _to_failure(plan: IndexerPlan, key: str | None, message: str) -> FileFailure:
    """Get the file's name from the key, which has its percent-encoded URL among other parts."""
    address = parse_qs(key or "").get("localId", [key or ""])[0]
    _, separator, name = unquote(address).partition(f"/{plan.container}/{plan.folder}")
    return name if separator else address or "(no file)", _single_line(message)


def _single_line(message: str) -> str:
    return " ".join(message.split())[:MAX_ERROR_LENGTH]


async def index_folder(
    settings: Settings, listing: Listing[FolderFile], options: setup.IngestOptions
) -> tuple[UploadResult, IndexerResult]:
    """Upload a folder's files, set the indexer up, and follow it.

    Raises DocumentRejected, SettingsError, and AclError where the index restricts one of the files.
    """
    if options.folder:
        refuse_acl(options.folder)
    _, index, storage, *_ = configuration.require_settings(settings, *REQUIRED_SETTINGS)
    setup.read_index_fields(settings)
    public = Acl().public_by_default(file.name for file in listing.files)
    await setup.check_restricted_files(settings, options, public)
    retry_policy = RetryPolicy(role_wait=options.roles, notify=tqdm.write)
    async with AsyncExitStack() as stack:
        clients, search = await stack.enter_async_context(open_service(settings, index))
        files = make_uploader(storage, settings.azure_storage_container, clients.identity)
        stack.push_async_callback(files.close)
        dimensions = await setup.get_embedding_dimensions(settings)
        with_vectorizer = settings.model_copy(update={"azure_search_vectorizer": True})
        index_spec = setup.build_index_spec(with_vectorizer, dimensions, options)
        plan = IndexerPlan(index_spec, options.storage or "", settings.azure_storage_container)
        uploads = await upload_files(files, listing, options)
        result = await run_indexer(search, plan, retry_policy)
    return uploads, result


async def upload_files(
    files: BlobUploader, listing: Listing[FolderFile], options: setup.IngestOptions
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
            tqdm.write(f"{number} of {len(listing.files)} files are uploaded.")
    return UploadResult(uploaded, len(stale), tuple(rejected))


async def _upload_file(files: BlobUploader, file: FolderFile, max_bytes: int) -> bool:
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
