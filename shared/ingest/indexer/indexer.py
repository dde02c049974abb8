"""Sets up an indexer, by which the search service itself reads the files, and follows its work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.search.documents.indexes.models import IndexerExecutionResult

from shared.ingest.indexer.definitions import (
    IndexerPlan,
    build_data_source,
    build_indexer,
    build_skillset,
)
from shared.ingest.targets.azure_search.index_definition import KEY_ANALYZER
from shared.ingest.targets.azure_search.index_update import OTHER_INDEX, create_or_update
from shared.ingest.targets.azure_search.retry import RetryPolicy
from shared.ingest.targets.azure_search.search_clients import SearchClients
from shared.ingest.targets.index_writer import DocumentRejected, IndexUnavailable

POLL_SECONDS = 10
MAX_SECONDS = 7200  # seconds; an ordinary run of an indexer is ended by the service after two hours
MAX_ERROR_LENGTH = 300  # characters of the service's own words
ACL_FILE = "acl.yaml"
RUNNING = ("inProgress", "reset")

ACL_UNSUPPORTED = (
    "There is an acl.yaml in {folder}: an indexer does not know who may see what, so every passage "
    "would be public. Index this folder without --indexer."
)
STILL_RUNNING = (
    "The indexer {name} is still at work after {minutes} minutes. It goes on without this command; "
    "run it again to follow it."
)
FAILED = "The indexer {name} ended with an error: {why}"


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that an indexer did not take, or not whole, and the service's words for why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexerResult:
    """What a run of an indexer did: files taken, files not taken, files taken with a warning."""

    indexed: int
    failed: tuple[FileFailure, ...]
    warnings: tuple[FileFailure, ...]


def refuse_acl(folder: Path) -> None:
    """Raise Refused where a folder's documents are not for everyone."""
    if any(folder.rglob(ACL_FILE)):
        raise DocumentRejected(ACL_UNSUPPORTED.format(folder=folder))


async def create_indexer(clients: SearchClients, plan: IndexerPlan, patience: RetryPolicy) -> None:
    """Make the index, the data source, the skillset and the indexer. Raises Refused.

    What is there is changed. The search service's own identity needs the roles Storage Blob Data
    Reader on the storage account and Cognitive Services OpenAI User on the model's resource.
    """
    index, _ = await create_or_update(clients.indexes, plan.index_spec, patience)
    key = next(one for one in index.fields if one.key)
    if key.analyzer_name != KEY_ANALYZER:
        raise IndexUnavailable(
            f"The key {key.name} of the index {index.name} has not the analyzer keyword, which an "
            f"indexer needs: {OTHER_INDEX}."
        )
    makes: tuple[tuple[Callable[..., Any], Any], ...] = (
        (clients.indexers.create_or_update_data_source_connection, build_data_source(plan)),
        (clients.indexers.create_or_update_skillset, build_skillset(plan)),
        (clients.indexers.create_or_update_indexer, build_indexer(plan)),
    )
    for make, part in makes:
        await patience.call_with_retry(partial(make, part))
        patience.notify(f"{part.name} is set up.")


async def run_indexer(
    clients: SearchClients, plan: IndexerPlan, patience: RetryPolicy, longest: float = MAX_SECONDS
) -> IndexerResult:
    """Set the indexer up, run it, and follow it for `longest` seconds. Raises Refused.

    One that is at work already is followed.
    """
    last = partial(patience.call_with_retry, partial(_get_last_run, clients, plan.indexer_name))
    before = await last()
    seen = before.start_time if before and before.status != "inProgress" else None
    await create_indexer(clients, plan, patience)
    await patience.call_with_retry(partial(_start_run, clients, plan.indexer_name))
    told = ""
    for _ in range(max(1, int(longest / POLL_SECONDS))):
        await patience.sleep(POLL_SECONDS)
        now = await last()
        if now is None or now.start_time == seen:
            continue
        if now.status not in RUNNING:
            return _to_result(plan, now)
        told = _notify_progress(patience, now, told)
    raise DocumentRejected(
        STILL_RUNNING.format(name=plan.indexer_name, minutes=round(longest / 60))
    )


async def _get_last_run(clients: SearchClients, name: str) -> IndexerExecutionResult | None:
    """The latest run of an indexer; None where there is none yet, or no indexer."""
    try:
        return (await clients.indexers.get_indexer_status(name)).last_result
    except ResourceNotFoundError:
        return None


async def _start_run(clients: SearchClients, name: str) -> None:
    with suppress(ResourceExistsError):  # it is at work: a new one begins by itself
        await clients.indexers.run_indexer(name)


def _notify_progress(patience: RetryPolicy, now: IndexerExecutionResult, told: str) -> str:
    """Say how far it is, where that is news; what was said."""
    said = f"{now.item_count} files so far, {now.failed_item_count} of them failed."
    if said != told:
        patience.notify(said)
    return said


def _to_result(plan: IndexerPlan, last: IndexerExecutionResult) -> IndexerResult:
    if last.status != "success":
        raise DocumentRejected(
            FAILED.format(
                name=plan.indexer_name, why=_single_line(last.error_message or last.status)
            )
        )
    return IndexerResult(
        indexed=last.item_count - last.failed_item_count,
        failed=tuple(_to_failure(plan, one.key, one.error_message) for one in last.errors),
        warnings=tuple(_to_failure(plan, one.key, one.message) for one in last.warnings),
    )


def _to_failure(plan: IndexerPlan, key: str | None, said: str) -> FileFailure:
    """The service names a file by its address, percent-encoded, among other parts of a key."""
    address = parse_qs(key or "").get("localId", [key or ""])[0]
    _, found, name = unquote(address).partition(f"/{plan.container}/{plan.folder}")
    return FileFailure(name if found else address or "(no file)", _single_line(said))


def _single_line(said: str) -> str:
    return " ".join(said.split())[:MAX_ERROR_LENGTH]
