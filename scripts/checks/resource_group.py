"""Checks the resource group before anything is created in it: by one call to Resource Manager."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from scripts.commands import CommandError, Limits, Program, find_program

TEMPLATE = Path(__file__).parent.parent.parent / "infra" / "main.bicep"
TEMPLATE_TAG = "azd-template"
PUBLIC_CLOUD = "https://management.azure.com/"
API_VERSION = "2021-04-01"
REQUEST_SECONDS = 30
MAX_BYTES = 1_000_000
NOT_OURS = (
    "The resource group {group} exists, and this template did not create it for the environment "
    "{environment}: its tags would be replaced, and `azd down` would delete it with everything in "
    "it. Take another environment (azd env new NAME). To create the resources in a group that "
    "exists, name one that is not called {group}: azd env set AZURE_RESOURCE_GROUP NAME"
)
EARLIER_VERSION = (
    " If an earlier version of this template created it: "
    "az group update --name {group} --set tags.{tag}={value}"
)
NOT_THERE = (
    "AZURE_RESOURCE_GROUP names {group}, which does not exist in this subscription. Create it: "
    "az group create --name {group} --location REGION; or let azd create one: "
    'azd env set AZURE_RESOURCE_GROUP ""'
)
NOTE = (
    "Note: {group} existed before. Everything is created in it, and `azd down` deletes nothing of "
    "that: docs/existing-resources.md has the commands that do."
)
NOT_CHECKED = "Note: whether the resource group {group} exists was not checked: {reason}"


class NotCheckedError(Exception):
    """Resource Manager cannot be asked; the message says why."""


def group_findings(environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the problems and the notes. Without a subscription, which azd then asks for, none.

    A group is the template's own if it has the tags that infra/main.bicep gives it.
    """
    name, subscription = environment.get("AZURE_ENV_NAME"), environment.get("AZURE_SUBSCRIPTION_ID")
    if not name or not subscription:
        return [], []
    own = f"rg-{name}"
    group = environment.get("AZURE_RESOURCE_GROUP") or own
    is_own_name = group.lower() == own.lower()
    try:
        tags = read_tags(environment, subscription, group)
    except NotCheckedError as error:
        return [], [NOT_CHECKED.format(group=group, reason=error)]
    if tags is None:
        return ([] if is_own_name else [NOT_THERE.format(group=group)]), []
    if not is_own_name:
        return [], [NOTE.format(group=group)]
    is_of_environment = tags.get("azd-env-name") == name
    if is_of_environment and tags.get(TEMPLATE_TAG) == template_name():
        return [], []
    problem = NOT_OURS.format(group=group, environment=name)
    if is_of_environment and TEMPLATE_TAG not in tags:
        problem += EARLIER_VERSION.format(group=group, tag=TEMPLATE_TAG, value=template_name())
    return [problem], []


def template_name() -> str:
    """Return the value of the tag that the group of the template has."""
    (name,) = re.findall(rf"'{TEMPLATE_TAG}': '([^']+)'", TEMPLATE.read_text("utf-8"))
    return name


def read_tags(
    environment: Mapping[str, str], subscription: str, group: str
) -> Mapping[str, str] | None:
    """Return the tags of a resource group; None if it does not exist. Raises NotCheckedError."""
    url = environment.get("AZURE_RESOURCE_MANAGER_URL") or PUBLIC_CLOUD
    path = f"/subscriptions/{quote(subscription)}/resourcegroups/{quote(group)}"
    request = Request(
        f"{url.rstrip('/')}{path}?api-version={API_VERSION}",
        headers={"Authorization": f"Bearer {get_token(environment)}"},
    )
    try:
        with urlopen(request, timeout=REQUEST_SECONDS) as response:
            value: Any = json.loads(response.read(MAX_BYTES))
    except HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise NotCheckedError(f"Resource Manager responds with {error.code}.") from None
    except (OSError, HTTPException, ValueError) as error:
        raise NotCheckedError(f"{error or type(error).__name__}.") from None
    tags = value.get("tags") if isinstance(value, dict) else None
    return tags if isinstance(tags, dict) else {}


def get_token(environment: Mapping[str, str]) -> str:
    """Return a token of azd's user for Resource Manager. Raises NotCheckedError."""
    try:
        azd = Program("azd", find_program("azd", path=environment.get("PATH")), Limits())
        result = azd.try_run("auth", "token", "--output", "json", quiet=True)
        return str(json.loads(result.output)["token"])
    except CommandError as error:
        raise NotCheckedError(str(error)) from None
    except (ValueError, KeyError, TypeError):
        raise NotCheckedError("`azd auth token` gives no token: azd auth login.") from None
