"""Requests the permission for Azure AI Search that AZURE_SEARCH_PERMISSIONS=user-token needs."""

from __future__ import annotations

import json
from typing import Any

from scripts.app_registration import read_properties, send_to_graph
from scripts.commands import Program, report

# Azure AI Search and its delegated permission `user_impersonation`, the same in every tenant.
SEARCH = "880da380-985e-4198-81b9-e05b1cc53158"
PERMISSION_ID = "a4165a31-5d9e-4120-bd1e-9d88c66fd3b8"
CONSENT = (
    "The app asks for tokens of Azure AI Search in the name of its users. An administrator agrees "
    "once: az ad app permission grant --id {client_id} --api {search} --scope user_impersonation"
)


def request_search_permission(az: Program, client_id: str, app_settings: str) -> None:
    """Add the permission to the registration if the settings need it. Raises CommandError.

    `app_settings` is the value of AZURE_APP_SETTINGS. Permissions that others added are kept.
    """
    if not _uses_user_tokens(app_settings):
        return
    current: list[dict[str, Any]] = read_properties(az, client_id, "requiredResourceAccess") or []
    others = [each for each in current if each["resourceAppId"] != SEARCH]
    known = [entry for each in current if each not in others for entry in each["resourceAccess"]]
    if not any(entry["id"] == PERMISSION_ID for entry in known):
        known.append({"id": PERMISSION_ID, "type": "Scope"})
        access = [*others, {"resourceAppId": SEARCH, "resourceAccess": known}]
        path = f"applications(appId='{client_id}')"
        send_to_graph(az, "PATCH", path, {"requiredResourceAccess": access})
    report(CONSENT.format(client_id=client_id, search=SEARCH))


def _uses_user_tokens(app_settings: str) -> bool:
    try:
        settings = json.loads(app_settings or "{}")
    except ValueError:  # the first hook reports it
        return False
    return isinstance(settings, dict) and settings.get("AZURE_SEARCH_PERMISSIONS") == "user-token"
