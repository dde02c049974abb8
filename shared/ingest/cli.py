"""Puts the documents of a folder into the index: `python -m shared.ingest FOLDER [--prune]`.

The settings say which index: the embedded one, or Azure AI Search where its endpoint is set.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from tqdm import tqdm

from shared import settings as configuration
from shared.chat.errors import ChatError
from shared.ingest.acl_check import check_index, check_no_rules, public_by_default
from shared.ingest.document import MEGABYTE
from shared.ingest.pipeline import Run, Summary
from shared.ingest.report import of_service, safe, summed_up
from shared.ingest.sandbox.process import CannotStart, SandboxLimits, SandboxReader
from shared.ingest.setup import IngestSetup, Options, made
from shared.ingest.sources import acl
from shared.ingest.sources.scan import Listing, listing
from shared.ingest.targets.index_writer import DocumentRejected
from shared.settings import Settings, SettingsError
from shared.telemetry.access_log import quiet_libraries

ROOT = Path(__file__).parent.parent.parent
STOPPED = "Stopped. What is in the index stays there; run it again to go on."


class UsageError(Exception):
    """What is wrong with the command."""


# What ends a run, each with a sentence.
ENDING = (UsageError, acl.AclError, SettingsError, ChatError, DocumentRejected, CannotStart)


def environment() -> Mapping[str, str]:
    """The settings as the app has them: the environment wins over local.settings.json."""
    path = ROOT / "local.settings.json"
    try:
        local = json.loads(path.read_text("utf-8-sig")) if path.exists() else {}
        values = local.get("Values") or {}
    except (ValueError, AttributeError):
        raise UsageError("local.settings.json is not valid JSON.") from None
    return {name: str(value) for name, value in values.items()} | dict(os.environ)


def asked(arguments: list[str] | None) -> tuple[Path, Options]:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m shared.ingest", description=__doc__)
    add = parser.add_argument
    add("folder", type=Path, help="the documents, in folders as you like")
    add("--prune", action="store_true", help="remove what is no longer in the folder")
    add("--no-rules", action="store_true", help="make public what a removed acl.yaml restricted")
    add("--largest", type=int, default=32, metavar="MB", help="skip larger files (32)")
    azure = parser.add_argument_group("with Azure AI Search")
    add = azure.add_argument
    add("--indexer", action="store_true", help="let the service read the files by itself")
    add("--storage", metavar="ID", help="the storage account's /subscriptions/... (--indexer)")
    add("--embedding-model", metavar="NAME", help="the model, where its deployment's is another")
    add("--roles", type=float, default=0, metavar="SECONDS", help="wait for new roles to act (0)")
    given = vars(parser.parse_args(arguments))
    if given["indexer"] and not (given["storage"] or "").startswith("/subscriptions/"):
        parser.error("--indexer needs --storage /subscriptions/.../storageAccounts/NAME")
    if given["largest"] < 1:
        parser.error("--largest must be 1 or more")
    if given["storage"] and not given["indexer"]:
        parser.error("--storage is for --indexer alone")
    return given.pop("folder").expanduser(), Options(**given)


async def run(folder: Path, options: Options, settings: Settings) -> None:
    """Do it, and say what was done. Raises what ENDING names."""
    begun = time.monotonic()
    if options.no_rules:
        check_no_rules(folder)
    found, rules = documents(folder)
    if options.indexer:
        from shared.ingest.indexer.run import indexed

        done = await indexed(settings, folder, found, options, tqdm.write)
        say(of_service(*done, time.monotonic() - begun))
        return
    await check_index(settings, folder, options, public_by_default(found, rules), tqdm.write)
    parts = await made(settings, folder, options, bool(rules.rules), tqdm.write)
    try:
        say([f"{len(found.files)} documents in {folder} -> {parts.told}"])
        summary = await put(options, parts, found, rules)
    finally:
        await parts.close()
    say(summed_up(summary, time.monotonic() - begun))


def say(lines: Iterable[str]) -> None:
    """Print some lines now."""
    for line in lines:
        print(line, flush=True)


def documents(folder: Path) -> tuple[Listing, acl.Acl]:
    """What is in the folder, and who may see it. Raises Wrong, AclError."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder that can be read.")
    found = listing(folder)
    if not found.files:  # also a folder that is not mounted: nothing is pruned for it
        raise UsageError(f"{folder} has no documents.")
    return found, acl.read(folder, [file.name for file in found.files], found.rules)


async def put(options: Options, parts: IngestSetup, found: Listing, rules: acl.Acl) -> Summary:
    """Bring the index up to the folder, with a bar."""
    limits = SandboxLimits(largest=options.largest * MEGABYTE)
    with tqdm(total=len(found.files), unit="file", disable=None, leave=False) as bar:

        def step(name: str) -> None:
            bar.set_postfix_str(safe(name)[-40:], refresh=False)
            bar.update()

        async with SandboxReader(limits) as reader:
            going = Run(reader, parts.target, parts.enrich, options.prune, step)
            return await going.over(found, rules)


def sentence(ending: Exception) -> str:
    """What ended a run, for whoever runs it: with what an app tells its log alone."""
    cause = getattr(ending, "cause", None)
    return f"{ending} ({cause})" if cause else str(ending)


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 also where files were skipped, 1 where the run was broken off."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    folder, options = asked(arguments)
    try:
        asyncio.run(run(folder, options, configuration.read_settings(environment())))
    except ENDING as ending:
        print(sentence(ending), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return 130
    return 0
