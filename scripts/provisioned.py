"""What is left to do when everything is there in Azure? It may be done again: nothing is twice."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.laptop import FROM_AZD, given
from scripts.samples import Waiting, load
from shared import settings as configuration
from shared.ingest.cli import ENDING, say, sentence
from shared.settings import Settings
from shared.telemetry.access_log import quiet_libraries

ROOT = Path(__file__).parent.parent
NEEDED = (
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_CHAT_DEPLOYMENT",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
)
ON, OFF = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
LACKS = "azd's environment has no {names}. Run `azd provision`, which runs this at its end."
NO_SAMPLES = (
    "AZURE_LOAD_SAMPLES is false: no sample documents are loaded. "
    "`make index DOCS=path/to/documents` makes the index and fills it with yours."
)
CLOSED = (
    "Search and models are reached from inside the virtual network alone, so the index is not made "
    "yet. From a machine there: `azd env set AZURE_LOAD_SAMPLES true`, `azd hooks run "
    "postprovision`. Or let your own address in: AZURE_ALLOWED_IPS."
)
STOPPED = "Stopped. `azd up` goes on, or `azd hooks run postprovision` and then `azd deploy`."
FAILED = (
    "When that is mended, `azd up` goes on, or `azd hooks run postprovision` and then `azd deploy`."
)


def main(environment: Mapping[str, str] = os.environ, waiting: Waiting | None = None) -> int:
    """The exit status: 0 when all is done, 1 when something must be mended, 130 after Ctrl+C."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    try:
        asyncio.run(finished(environment, waiting or Waiting()))
    except ENDING as ending:
        told([sentence(ending), FAILED])
        return 1
    except KeyboardInterrupt:
        told([STOPPED])
        return 130
    return 0


async def finished(environment: Mapping[str, str], waiting: Waiting) -> None:
    """Do it all. Raises what ENDING names."""
    settings = of_azd(environment)
    if not off(environment, "AZURE_LOCAL_SETTINGS"):
        say(given(ROOT, environment))
    if off(environment, "AZURE_LOAD_SAMPLES"):
        return say([NO_SAMPLES])
    if closed(environment) and not on(environment, "AZURE_LOAD_SAMPLES"):
        return say([CLOSED])
    await load(settings, waiting)


def of_azd(environment: Mapping[str, str]) -> Settings:
    """The settings of the app in Azure. Raises SettingsError.

    Nothing else of the environment, or of local.settings.json, may change what goes into the
    index; and whoever runs azd does so as themselves, not by an identity of the machine.
    """
    if missing := [name for name in NEEDED if not environment.get(name, "").strip()]:
        raise configuration.SettingsError((LACKS.format(names=", ".join(missing)),))
    return configuration.read({name: environment.get(name, "") for name in FROM_AZD})


def closed(environment: Mapping[str, str]) -> bool:
    """Whether this machine cannot reach the services, as far as azd knows."""
    return (
        on(environment, "AZURE_USE_VNET") and not environment.get("AZURE_ALLOWED_IPS", "").strip()
    )


def on(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch was turned on."""
    return environment.get(name, "").strip().lower() in ON


def off(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch was turned off."""
    return environment.get(name, "").strip().lower() in OFF


def told(lines: Iterable[str]) -> None:
    """Print what went wrong."""
    print(*lines, sep="\n", file=sys.stderr, flush=True)
