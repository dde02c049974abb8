"""The steps after provisioning: local settings, roles, sample documents. They are idempotent."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from scripts.budget import set_budget
from scripts.certificates import untrusted_message
from scripts.commands import report
from scripts.existing_resources import ResourceManagerError, prepare_existing_resources
from scripts.knowledge_base import prepare_knowledge_base
from scripts.local_settings import AZD_OUTPUTS, app_settings, write_local_settings
from scripts.samples import WAIT_POLICY, SamplesError, WaitPolicy, prepare_samples
from scripts.switches import EXISTING_SEARCH, is_off
from scripts.uploads_index import prepare_uploads_index
from shared import settings as configuration
from shared.azure.errors import is_untrusted
from shared.azure.identity import get_credential
from shared.settings import Settings, SettingsError
from shared.telemetry.access_log import quiet_libraries

ROOT = Path(__file__).parent.parent
# Settings of AZURE_APP_SETTINGS that decide how the index is written.
INDEX_SETTINGS = ("AZURE_SEARCH_PERMISSIONS",)
REQUIRED_OUTPUTS = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_CHAT_DEPLOYMENT",
)
MISSING_MESSAGE = (
    "azd's environment has no {names}. Run `azd provision`, which runs this at its end."
)
EXISTING_SEARCH_MESSAGE = (
    "The search service existed before: its index {index} answers, and nothing is written to it."
)
STOPPED_MESSAGE = (
    "Stopped. Continue with `azd up`, or with `azd hooks run postprovision` and `azd deploy`."
)
FAILED_MESSAGE = (
    "Fix this, then continue with `azd up`, or with `azd hooks run postprovision` and `azd deploy`."
)


def main(
    environment: Mapping[str, str] = os.environ,
    wait_policy: WaitPolicy = WAIT_POLICY,
) -> int:
    """Run the steps. Returns the exit status: 0, 1 after an error, 130 after Ctrl+C."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    try:
        asyncio.run(run(environment, wait_policy=wait_policy))
    except (SettingsError, ResourceManagerError, SamplesError) as error:
        print_errors(str(error), *certificate_help(error), FAILED_MESSAGE)
        return 1
    except KeyboardInterrupt:
        print_errors(STOPPED_MESSAGE)
        return 130
    return 0


async def run(
    environment: Mapping[str, str],
    wait_policy: WaitPolicy,
) -> None:
    """Run the steps. Raises the errors that `main` prints."""
    settings = read_azd_settings(environment)
    if not is_off(environment, "AZURE_LOCAL_SETTINGS"):
        for message in write_local_settings(ROOT, environment):
            report(message)
    for message in set_budget(environment):
        report(message)
    async with get_credential(managed=False, client_id=None) as credential:
        messages, complete = await prepare_existing_resources(environment, credential)
    for message in messages:
        report(message)
    if not complete:
        return
    await prepare_uploads_index(environment, wait_policy)
    if environment.get(EXISTING_SEARCH):
        return report(EXISTING_SEARCH_MESSAGE.format(index=settings.azure_search_index))
    await prepare_samples(environment, settings, wait_policy)
    if settings.azure_search_knowledge_base:
        await prepare_knowledge_base(environment, settings)


def read_azd_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings of the app in Azure from azd's outputs. Raises SettingsError.

    Other variables and local.settings.json must not affect the index, and a managed identity of
    this machine must not replace the user's sign-in.
    """
    if missing := [name for name in REQUIRED_OUTPUTS if not environment.get(name, "").strip()]:
        raise SettingsError((MISSING_MESSAGE.format(names=", ".join(missing)),))
    values = {name: environment.get(name, "") for name in AZD_OUTPUTS}
    own = app_settings(environment)
    values |= {name: own[name] for name in INDEX_SETTINGS if name in own}
    return configuration.read_settings(values)


def certificate_help(error: BaseException) -> list[str]:
    """Return what to do where Python trusts no certificate; nothing for other errors."""
    return [untrusted_message()] if is_untrusted(error) else []


def print_errors(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)
