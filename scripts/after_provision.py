"""The steps after provisioning: local settings and sample documents. They are idempotent."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.certificates import is_untrusted, untrusted_message
from scripts.existing_resources import ResourceManagerError, prepare_existing_resources
from scripts.local_settings import AZD_OUTPUTS, write_local_settings
from scripts.samples import WaitPolicy, load_samples
from scripts.switches import EXISTING_SEARCH, is_off, is_on, is_private_network
from shared import settings as configuration
from shared.azure.identity import get_credential
from shared.ingest.cli import HANDLED_ERRORS, error_message, print_lines
from shared.settings import Settings
from shared.telemetry.access_log import quiet_libraries

ROOT = Path(__file__).parent.parent
REQUIRED_OUTPUTS = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_CHAT_DEPLOYMENT",
)
MISSING_MESSAGE = (
    "azd's environment has no {names}. Run `azd provision`, which runs this at its end."
)
NO_SAMPLES_MESSAGE = (
    "AZURE_LOAD_SAMPLES is false: no sample documents are loaded. "
    "`make index DOCS=path/to/documents` creates the index with your documents."
)
EXISTING_SEARCH_MESSAGE = (
    "The search service existed before: its index {index} answers, and nothing is written to it."
)
PRIVATE_NETWORK_MESSAGE = (
    "Search and models accept requests only from the virtual network, so the index is not created "
    "yet. From a machine there: `azd env set AZURE_LOAD_SAMPLES true`, `azd hooks run "
    "postprovision`. Or allow your own address: AZURE_ALLOWED_IPS."
)
STOPPED_MESSAGE = (
    "Stopped. Continue with `azd up`, or with `azd hooks run postprovision` and `azd deploy`."
)
FAILED_MESSAGE = (
    "Fix this, then continue with `azd up`, or with `azd hooks run postprovision` and `azd deploy`."
)


def main(environment: Mapping[str, str] = os.environ, wait_policy: WaitPolicy | None = None) -> int:
    """Run the steps. Returns the exit status: 0, 1 after an error, 130 after Ctrl+C."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    try:
        asyncio.run(run(environment, wait_policy or WaitPolicy()))
    except (*HANDLED_ERRORS, ResourceManagerError) as error:
        print_errors([error_message(error), *certificate_help(error), FAILED_MESSAGE])
        return 1
    except KeyboardInterrupt:
        print_errors([STOPPED_MESSAGE])
        return 130
    return 0


async def run(environment: Mapping[str, str], wait_policy: WaitPolicy) -> None:
    """Run the steps. Raises the errors of HANDLED_ERRORS, and ResourceManagerError."""
    settings = read_azd_settings(environment)
    if not is_off(environment, "AZURE_LOCAL_SETTINGS"):
        print_lines(write_local_settings(ROOT, environment))
    async with get_credential(managed=False, client_id=None) as credential:
        messages, complete = await prepare_existing_resources(environment, credential)
    print_lines(messages)
    if not complete:
        return
    if environment.get(EXISTING_SEARCH):
        return print_lines([EXISTING_SEARCH_MESSAGE.format(index=settings.search_index)])
    if is_off(environment, "AZURE_LOAD_SAMPLES"):
        return print_lines([NO_SAMPLES_MESSAGE])
    if is_private_network(environment) and not is_on(environment, "AZURE_LOAD_SAMPLES"):
        return print_lines([PRIVATE_NETWORK_MESSAGE])
    await load_samples(settings, wait_policy)


def read_azd_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings of the app in Azure from azd's outputs. Raises SettingsError.

    Other variables and local.settings.json must not affect the index, and a managed identity of
    this machine must not replace the user's sign-in.
    """
    if missing := [name for name in REQUIRED_OUTPUTS if not environment.get(name, "").strip()]:
        raise configuration.SettingsError((MISSING_MESSAGE.format(names=", ".join(missing)),))
    return configuration.read_settings({name: environment.get(name, "") for name in AZD_OUTPUTS})


def certificate_help(error: BaseException) -> list[str]:
    """Return what to do where Python trusts no certificate; nothing for other errors."""
    return [untrusted_message()] if is_untrusted(error) else []


def print_errors(lines: Iterable[str]) -> None:
    """Print lines to stderr."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)
