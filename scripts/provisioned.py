"""What is left to do when everything is there in Azure? It may be done again: nothing is twice."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.laptop import AZD_OUTPUTS, write_local_settings
from scripts.samples import WaitPolicy, load_samples
from shared import settings as configuration
from shared.ingest.cli import ENDING, say, sentence
from shared.settings import Settings
from shared.telemetry.access_log import quiet_libraries

ROOT = Path(__file__).parent.parent
REQUIRED_OUTPUTS = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_CHAT_DEPLOYMENT",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
)
TRUE_WORDS, FALSE_WORDS = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
MISSING_MESSAGE = (
    "azd's environment has no {names}. Run `azd provision`, which runs this at its end."
)
NO_SAMPLES_MESSAGE = (
    "AZURE_LOAD_SAMPLES is false: no sample documents are loaded. "
    "`make index DOCS=path/to/documents` makes the index and fills it with yours."
)
PRIVATE_NETWORK_MESSAGE = (
    "Search and models are reached from inside the virtual network alone, so the index is not made "
    "yet. From a machine there: `azd env set AZURE_LOAD_SAMPLES true`, `azd hooks run "
    "postprovision`. Or let your own address in: AZURE_ALLOWED_IPS."
)
STOPPED_MESSAGE = (
    "Stopped. `azd up` goes on, or `azd hooks run postprovision` and then `azd deploy`."
)
FAILED_MESSAGE = (
    "When that is mended, `azd up` goes on, or `azd hooks run postprovision` and then `azd deploy`."
)


def main(environment: Mapping[str, str] = os.environ, waiting: WaitPolicy | None = None) -> int:
    """The exit status: 0 when all is done, 1 when something must be mended, 130 after Ctrl+C."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    try:
        asyncio.run(run(environment, waiting or WaitPolicy()))
    except ENDING as ending:
        print_errors([sentence(ending), FAILED_MESSAGE])
        return 1
    except KeyboardInterrupt:
        print_errors([STOPPED_MESSAGE])
        return 130
    return 0


async def run(environment: Mapping[str, str], waiting: WaitPolicy) -> None:
    """Do it all. Raises what ENDING names."""
    settings = read_azd_settings(environment)
    if not is_off(environment, "AZURE_LOCAL_SETTINGS"):
        say(write_local_settings(ROOT, environment))
    if is_off(environment, "AZURE_LOAD_SAMPLES"):
        return say([NO_SAMPLES_MESSAGE])
    if is_private_network(environment) and not is_on(environment, "AZURE_LOAD_SAMPLES"):
        return say([PRIVATE_NETWORK_MESSAGE])
    await load_samples(settings, waiting)


def read_azd_settings(environment: Mapping[str, str]) -> Settings:
    """The settings of the app in Azure. Raises SettingsError.

    Nothing else of the environment, or of local.settings.json, may change what goes into the
    index; and whoever runs azd does so as themselves, not by an identity of the machine.
    """
    if missing := [name for name in REQUIRED_OUTPUTS if not environment.get(name, "").strip()]:
        raise configuration.SettingsError((MISSING_MESSAGE.format(names=", ".join(missing)),))
    return configuration.read_settings({name: environment.get(name, "") for name in AZD_OUTPUTS})


def is_private_network(environment: Mapping[str, str]) -> bool:
    """Whether this machine cannot reach the services, as far as azd knows."""
    return (
        is_on(environment, "AZURE_USE_VNET")
        and not environment.get("AZURE_ALLOWED_IPS", "").strip()
    )


def is_on(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch was turned on."""
    return environment.get(name, "").strip().lower() in TRUE_WORDS


def is_off(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch was turned off."""
    return environment.get(name, "").strip().lower() in FALSE_WORDS


def print_errors(lines: Iterable[str]) -> None:
    """Print what went wrong."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)
