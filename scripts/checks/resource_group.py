"""Checks the resource group before anything is created in it: by one call to Resource Manager."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from scripts.checks.resource_manager import UnavailableError, send

TEMPLATE = Path(__file__).parent.parent.parent / "infra" / "main.bicep"
TEMPLATE_TAG = "azd-template"
API_VERSION = "2021-04-01"
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
    except UnavailableError as error:
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
    name: str
    (name,) = re.findall(rf"'{TEMPLATE_TAG}': '([^']+)'", TEMPLATE.read_text("utf-8"))
    return name


def read_tags(
    environment: Mapping[str, str], subscription: str, group: str
) -> Mapping[str, str] | None:
    """Return the tags of a resource group; None if it does not exist. Raises UnavailableError."""
    path = f"/subscriptions/{subscription}/resourcegroups/{group}"
    value = send(environment, "GET", path, API_VERSION)
    if value is None:
        return None
    tags = value.get("tags")
    return tags if isinstance(tags, dict) else {}
