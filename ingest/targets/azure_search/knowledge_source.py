"""Creates knowledge sources that Azure AI Search fills itself, and follows their first run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import KnowledgeSource

from ingest.targets.azure_search.service_calls import call_service, merge, none_if_missing
from ingest.targets.index_writer import IndexUnavailable

POLL_SECONDS = (1.0, 2.0, 5.0, 10.0)  # between two requests of the state; the last one repeats
STALL_SECONDS = 1800.0  # without any progress

INGESTION = "ingestionParameters"
# What the files of sources define: it is not kept where a file no longer has it.
OWN_PARAMETERS = {"folderPath", "targetPath", "query", "createdResources", INGESTION}
OWN_INGESTION = {"embeddingModel", "ingestionSchedule", "ingestionPermissionOptions"}
OTHER_KIND = (
    "The knowledge source {name} is of the kind {kind}. Nothing was changed. Give this one another "
    "name."
)
OTHER_PERMISSIONS = (
    "The knowledge source {name} exists, and its `permissions` are different. Nothing was changed, "
    "as indexed documents would keep their readers. Remove the source first (ARGS=--remove), or "
    "name another one."
)
STALLED = (
    "The knowledge source {name} has made no progress for {minutes:.0f} minutes. The service goes "
    "on without this command; run it again to follow it."
)


@dataclass(slots=True)
class Progress:
    """The documents of a run, as far as the service has counted them."""

    processed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: dict[str, str] = field(default_factory=dict)  # messages, by the document

    def update(self, state: Mapping[str, Any]) -> None:
        """Take over the numbers of a state; errors of earlier states are kept."""
        self.processed = _number(state, "itemsUpdatesProcessed")
        self.failed = _number(state, "itemsUpdatesFailed")
        self.skipped = _number(state, "itemsSkipped")
        for error in state.get("errors") or ():
            self.errors[str(error.get("docId") or "")] = str(error.get("errorMessage") or "")


def _number(state: Mapping[str, Any], name: str) -> int:
    value = state.get(name)
    return value if isinstance(value, int) else 0


async def create_source(client: SearchIndexClient, definition: Mapping[str, Any]) -> None:
    """Create or update a source. Values that only others set are kept.

    Raises DocumentRejected.
    """
    name, kind = definition["name"], definition["kind"]
    existing = await call_service(none_if_missing(client.get_knowledge_source), name)
    if existing:
        if existing["kind"] != kind:
            raise IndexUnavailable(OTHER_KIND.format(name=name, kind=existing["kind"]))
        if takes_permissions(existing) != takes_permissions(definition):
            raise IndexUnavailable(OTHER_PERMISSIONS.format(name=name))
    source = KnowledgeSource(_merge_source(existing or {}, definition))
    await call_service(client.create_or_update_knowledge_source, source)


def takes_permissions(definition: Mapping[str, Any]) -> bool:
    """Whether a source takes over the permissions of its documents."""
    parameters = _parameters(definition)
    return bool((parameters.get(INGESTION) or {}).get("ingestionPermissionOptions"))


def _parameters(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    return definition.get(f"{definition['kind']}Parameters") or {}


def _merge_source(existing: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with our values, and those of others that we never set."""
    known, new = _parameters(existing) if existing else {}, _parameters(ours)
    kept = {name: value for name, value in known.items() if name not in OWN_PARAMETERS}
    ingestion = {
        name: value
        for name, value in (known.get(INGESTION) or {}).items()
        if name not in OWN_INGESTION
    }
    merged = {**kept, **new, INGESTION: {**ingestion, **new[INGESTION]}}
    return {**merge(existing, ours), f"{ours['kind']}Parameters": merged}


async def remove_source(client: SearchIndexClient, name: str) -> None:
    """Delete a source, if it exists. Raises DocumentRejected."""
    await call_service(none_if_missing(client.delete_knowledge_source), name)


async def follow_source(
    client: SearchIndexClient,
    name: str,
    on_progress: Callable[[Progress], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    stall: float = STALL_SECONDS,
) -> Progress:
    """Wait until the service has read the documents of a source.

    Calls `on_progress` at each change. Raises DocumentRejected, also after `stall` seconds without
    one.
    """
    progress, last_change, known = Progress(), time.monotonic(), None
    for pause in _pauses():
        status: Mapping[str, Any] = await call_service(client.get_knowledge_source_status, name)
        current, last = (
            status.get(f"{which}SynchronizationState") for which in ("current", "last")
        )
        progress.update(current or last or {})
        if status.get("synchronizationStatus") == "active" and last and not current:
            return progress
        if (state := (status.get("synchronizationStatus"), current)) != known:
            known, last_change = state, time.monotonic()
            on_progress(progress)
        if time.monotonic() - last_change > stall:
            raise IndexUnavailable(STALLED.format(name=name, minutes=stall / 60))
        await sleep(pause)
    raise AssertionError("unreachable")


def _pauses() -> Iterator[float]:
    yield from POLL_SECONDS
    while True:
        yield POLL_SECONDS[-1]
