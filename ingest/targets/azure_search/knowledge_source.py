"""Creates knowledge sources that Azure AI Search fills itself, and follows their first run."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from azure.search.documents.indexes.aio import SearchIndexClient
from azure.search.documents.indexes.models import KnowledgeSource

from ingest.targets.azure_search.service_calls import call_if_exists, call_service, merge
from ingest.targets.index_writer import IndexUnavailable

INGESTION = "ingestionParameters"
# What the files of sources define: it is not kept where a file no longer has it.
OWN_PARAMETERS = {"folderPath", "targetPath", "createdResources", INGESTION}
# Where the documents are: a source is for one place.
PLACE = ("containerName", "folderPath", "fabricWorkspaceId", "lakehouseId", "targetPath")
ADDRESS = re.compile(r"(?:SharePointOnlineEndpoint|ResourceId)=[^;]*")
OWN_INGESTION = {"embeddingModel", "ingestionSchedule", "ingestionPermissionOptions"}
OTHER_KIND = (
    "The knowledge source {name} is of the kind {kind}. Nothing was changed. Give this one another "
    "name."
)
OTHER_PLACE = (
    "The knowledge source {name} is for documents of another place. Nothing was changed. Remove it "
    "first (ARGS=--remove), or give this one another name."
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


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds."""

    begin: float = 60.0  # for a new run of a source that exists
    stall: float = 1800.0  # without any progress
    poll: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)  # between two requests; the last one repeats

    def pauses(self) -> Iterator[float]:
        """Yield the seconds between two requests, without end."""
        yield from self.poll
        while True:
            yield self.poll[-1]


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


async def create_source(client: SearchIndexClient, definition: Mapping[str, Any]) -> str | None:
    """Create or update a source. Values that only others set are kept.

    Returns when its last run ended; None without one. Raises DocumentRejected.
    """
    name = definition["name"]
    existing = await read_source(client, name, definition["kind"])
    last_run = None
    if existing:
        if permission_options(existing) != permission_options(definition):
            raise IndexUnavailable(OTHER_PERMISSIONS.format(name=name))
        if _is_elsewhere(_parameters(existing), _parameters(definition)):
            raise IndexUnavailable(OTHER_PLACE.format(name=name))
        last_run = _end_of_last_run(await call_service(client.get_knowledge_source_status, name))
    source = KnowledgeSource(_merge_source(existing or {}, definition))
    await call_service(client.create_or_update_knowledge_source, source)
    return last_run


async def read_source(client: SearchIndexClient, name: str, kind: str) -> Mapping[str, Any] | None:
    """Return the definition of a source; None without one.

    Raises IndexUnavailable for one of another kind.
    """
    existing = await call_if_exists(client.get_knowledge_source, name)
    if existing and existing["kind"] != kind:
        raise IndexUnavailable(OTHER_KIND.format(name=name, kind=existing["kind"]))
    return existing


def _is_elsewhere(known: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Whether two parameters are for different places, as far as the service shows them."""
    first, second = (ADDRESS.search(each.get("connectionString") or "") for each in (known, ours))
    return any(known.get(key) != ours.get(key) for key in PLACE) or (
        first is not None and second is not None and first[0] != second[0]
    )


def permission_options(definition: Mapping[str, Any]) -> set[str]:
    """Return which permissions of its documents a source takes over."""
    ingestion = _parameters(definition).get(INGESTION) or {}
    return set(ingestion.get("ingestionPermissionOptions") or ())


def _end_of_last_run(status: Mapping[str, Any]) -> str | None:
    end = (status.get("lastSynchronizationState") or {}).get("endTime")
    return str(end) if end else None


def _parameters(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    return definition.get(f"{definition['kind']}Parameters") or {}


def _merge_source(existing: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with our values, and those of others that we never set."""
    known, new = _parameters(existing) if existing else {}, _parameters(ours)
    others = {name: value for name, value in known.items() if name not in OWN_PARAMETERS}
    ingestion = {
        name: value
        for name, value in (known.get(INGESTION) or {}).items()
        if name not in OWN_INGESTION
    }
    merged = {**others, **new, INGESTION: {**ingestion, **new[INGESTION]}}
    kept = {name: value for name, value in existing.items() if name != "description"}
    return {**merge(kept, ours), f"{ours['kind']}Parameters": merged}


async def remove_source(client: SearchIndexClient, name: str) -> None:
    """Delete a source, if it exists. Raises DocumentRejected."""
    await call_if_exists(client.delete_knowledge_source, name)


async def follow_source(
    client: SearchIndexClient,
    name: str,
    last_run: str | None,
    on_progress: Callable[[Progress], None],
    patience: Patience = Patience(),  # it is frozen
) -> Progress | None:
    """Wait until the service has read the documents of a source.

    `last_run` is when an earlier run ended. Calls `on_progress` at each change. Returns None if no
    new run begins. Raises DocumentRejected, also where a run makes no progress.
    """
    progress, last_change, known = Progress(), time.monotonic(), None
    for pause in patience.pauses():
        status: Mapping[str, Any] = await call_service(client.get_knowledge_source_status, name)
        current, last = (
            status.get(f"{which}SynchronizationState") for which in ("current", "last")
        )
        waited = time.monotonic() - last_change
        if last and not current:
            if _end_of_last_run(status) != last_run:
                progress.update(last)
                return progress
            if waited > patience.begin:
                return None
        progress.update(current or {})
        if (state := (status.get("synchronizationStatus"), current)) != known:
            known, last_change = state, time.monotonic()
            on_progress(progress)
        if time.monotonic() - last_change > patience.stall:
            raise IndexUnavailable(STALLED.format(name=name, minutes=patience.stall / 60))
        await asyncio.sleep(pause)
    raise AssertionError("unreachable")
