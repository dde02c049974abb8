"""Definitions of knowledge sources that the service fills itself, by the REST API 2026-10-01."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
INGESTION = {
    *("embeddingModel", "ingestionSchedule", "ingestionPermissionOptions"),
    *("contentExtractionMode", "networkAccessMode"),
}
# By kind: the parameters that are required, the optional ones, and the permissions to take over.
KINDS: Mapping[str, tuple[set[str], set[str], set[str]]] = {
    "azureBlob": (
        {"connectionString", "containerName"},
        {"folderPath", "isADLSGen2"},
        {"userIds", "groupIds", "rbacScope"},
    ),
    "indexedSharePoint": (
        {"connectionString", "containerName"},
        {"query"},
        {"userIds", "groupIds"},
    ),
    "indexedOneLake": (
        {"fabricWorkspaceId", "lakehouseId"},
        {"targetPath"},
        {"userIds", "groupIds"},
    ),
}
# The forms of values, by kind and parameter.
FORMS = {
    (
        "azureBlob",
        "connectionString",
    ): r"ResourceId=/subscriptions/[^;]+/storageAccounts/[a-z0-9]+;",
    ("azureBlob", "containerName"): r"[a-z0-9-]+",
    ("indexedSharePoint", "connectionString"): (
        rf"SharePointOnlineEndpoint=https://[^;]+;ApplicationId={GUID};ApplicationSecret=[^;]+;"
        rf"TenantId={GUID}"
    ),
    ("indexedSharePoint", "containerName"): "defaultSiteLibrary|allSiteLibraries|useQuery",
    ("indexedOneLake", "fabricWorkspaceId"): GUID,
    ("indexedOneLake", "lakehouseId"): GUID,
}


def is_source(body: Mapping[str, Any]) -> bool:
    """Whether the service accepts the definition of a source that it fills."""
    kind = body["kind"]
    if kind not in KINDS or body.keys() - {"description"} != {"name", "kind", f"{kind}Parameters"}:
        return False
    parameters = body[f"{kind}Parameters"]
    required, optional, permissions = KINDS[kind]
    names = parameters.keys() - {"ingestionParameters"}
    ingestion = parameters.get("ingestionParameters", {})
    options = ingestion.get("ingestionPermissionOptions", ["userIds"])
    hierarchical = kind != "azureBlob" or parameters.get("isADLSGen2") or options == ["rbacScope"]
    return (
        required <= names <= required | optional
        and all(
            re.fullmatch(FORMS.get((kind, name), ".*"), str(parameters[name])) for name in names
        )
        and ingestion.keys() <= INGESTION
        and bool(options)
        and permissions >= {*options}
        and (bool(hierarchical) or "ingestionPermissionOptions" not in ingestion)
        and re.fullmatch(r"P1D|PT(\d+[HM])+", interval(ingestion)) is not None
    )


def interval(ingestion: Mapping[str, Any]) -> str:
    return str(ingestion.get("ingestionSchedule", {"interval": "P1D"})["interval"])


def state(processed: int, failed: int = 0, **errors: str) -> dict[str, Any]:
    """The state of a run; `errors` are messages by the document."""
    return {
        "startTime": "2026-11-26T08:00:00Z",
        "itemsUpdatesProcessed": processed,
        "itemsUpdatesFailed": failed,
        "itemsSkipped": 1,
        "errors": [{"docId": id, "errorMessage": message} for id, message in errors.items()],
    }


def status(
    current: Mapping[str, Any] | None = None,
    last: Mapping[str, Any] | None = None,
    name: str = "active",
    end: str = "2026-11-26T09:00:00Z",
) -> dict[str, Any]:
    """The response of `/status`."""
    completed = last and {**last, "endTime": end}
    return {
        "kind": "azureBlob",
        "synchronizationStatus": name,
        "synchronizationInterval": "1d",
        "currentSynchronizationState": current,
        "lastSynchronizationState": completed,
        "statistics": None,
    }
