"""Refuses a run that would make restricted files public because the folder has no rules."""

from __future__ import annotations

import os
from collections.abc import Set
from contextlib import AsyncExitStack
from pathlib import Path
from unicodedata import normalize

from shared.bootstrap.clients import Clients
from shared.ingest.setup import (
    IngestOptions,
    Notify,
    WriterOptions,
    build_writer,
    check_search_fields,
)
from shared.ingest.sources.acl import ACL_FILE, Acl, AclError, path_matches
from shared.ingest.sources.scan import Listing
from shared.settings import Settings

MISSING_RULES = (
    "{rules} is missing or restricts no file, and the index restricts files of this folder "
    "({number}, such as {name}): this run would make them public. Put {rules} with its rules "
    "back, or make these files public by --no-rules (make index ARGS=--no-rules)."
)
CONTRADICTION = (
    "--no-rules contradicts {rules} in the folder: leave out --no-rules, or remove {rules} to make "
    "its files public."
)


def check_no_rules(folder: Path) -> None:
    """Raise AclError where a folder has rules, as --no-rules states that it has none."""
    if os.path.lexists(folder / ACL_FILE):
        raise AclError(CONTRADICTION.format(rules=ACL_FILE))


def public_by_default(listing: Listing, rules: Acl) -> set[str]:
    """The documents that no rule matches, in a folder whose rules restrict no file.

    Empty where a rule restricts a file: then the other documents are public on purpose, as are
    those that an entry with empty lists matches.
    """
    if any(access.oids or access.groups for _, access in rules.rules):
        return set()
    names = (normalize("NFC", file.name) for file in listing.files)
    return {name for name in names if not any(path_matches(path, name) for path, _ in rules.rules)}


async def check_restricted_files(
    settings: Settings, folder: Path, options: IngestOptions, names: Set[str], notify: Notify
) -> None:
    """Raise AclError where the index restricts files of `names`, unless options allow it.

    Changes nothing and calls no model. Also raises SettingsError, DocumentRejected.
    """
    if options.no_rules or not names:
        return
    restricted = await _restricted_files(settings, folder, options, notify)
    if files := sorted(names & restricted):
        raise AclError(MISSING_RULES.format(rules=ACL_FILE, number=len(files), name=files[0]))


async def _restricted_files(
    settings: Settings, folder: Path, options: IngestOptions, notify: Notify
) -> set[str]:
    check_search_fields(settings)
    clients = Clients(settings, batch=True)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(clients.close)
        writer = build_writer(clients, WriterOptions(folder, options, notify))
        stack.push_async_callback(writer.close)
        return {normalize("NFC", name) for name in await writer.restricted_files()}
