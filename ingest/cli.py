"""Indexes documents: `python -m ingest [FOLDER] [--prune]`.

The settings choose the index: Azure AI Search where its endpoint is set, else the embedded one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from ingest import acl
from ingest.document import MEGABYTE
from ingest.pipeline import AccessRules, IngestPipeline, IngestSummary
from ingest.sandbox import SandboxLimits, SandboxReader, SandboxStartError
from ingest.scan import FolderFile, Listing, SourceFile, list_folder
from ingest.setup import (
    IngestOptions,
    IngestSetup,
    check_restricted_files,
    find_indexed_folder,
    open_setup,
)
from ingest.targets.index_writer import DocumentRejected
from shared import settings as configuration
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.domain.errors import ChatError
from shared.settings import Settings, SettingsError
from shared.telemetry.access_log import quiet_libraries

if TYPE_CHECKING:  # these import the Azure SDKs
    from ingest.indexer.run import IndexerResult, UploadResult

NOTHING_READ = (
    "No document of {folder} could be read, so nothing was indexed: the files above are named with "
    "the reasons."
)
OUTDATED = (
    "The index still has passages of files that could not be removed, named above: people who may "
    "not see them any more may find them. Correct the reasons, and run this again."
)
BY_WORDS_ALONE = """\
Indexed by words alone: a question in other words than the documents' may not find them.
With an embedding model, they are found by meaning. Set one in local.settings.json, such as
{model}, then index again:
{settings}"""
# Whatever is meant as one, also with a mistake: a key in it must not be printed.
ADDRESS = re.compile(r"://|^https?:|\.(?:blob|dfs)\.|[?&]sig=", re.IGNORECASE)
NO_FOLDER = "Say which folder: make index DOCS=path/to/documents"
ONE_FOLDER = " One folder is indexed at a time: put the others into it."
INTERRUPTED = "Stopped. The index keeps what it has; run the command again to continue."


# The errors that end a run with a message and without a traceback.
HANDLED_ERRORS = (
    UsageError,
    acl.AclError,
    SettingsError,
    ChatError,
    DocumentRejected,
    SandboxStartError,
)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line: the fields of IngestOptions, but that `folder` may be None."""
    parser = argparse.ArgumentParser(
        prog="python -m ingest",
        description=__doc__,
        argument_default=argparse.SUPPRESS,  # IngestOptions has the defaults
    )
    add = parser.add_argument
    add(
        "folder",
        nargs="?",
        default=None,
        help="the folder of documents with its subfolders, or its address in Blob storage; by "
        "default that of the embedded index",
    )
    add("--prune", action="store_true", help="remove what is no longer in the folder")
    add("--no-rules", action="store_true", help="the folder has no access rules: all is public")
    add("--permissions", action="store_true", help="the access lists of Data Lake Storage apply")
    add("--largest", dest="max_megabytes", type=int, metavar="MB", help="skip larger files (32)")
    add("--seconds", type=float, help="skip files that take longer to read (60)")
    azure = parser.add_argument_group("with Azure AI Search")
    add = azure.add_argument
    add("--indexer", action="store_true", help="let the service read the files by itself")
    add("--storage", metavar="ID", help="the storage account's /subscriptions/... (--indexer)")
    add("--embedding-model", metavar="NAME", help="the model, if not named like its deployment")
    add("--roles", type=float, metavar="SECONDS", help="retry refusals so long (0)")
    values = parser.parse_args(arguments)
    if ADDRESS.search(values.folder or "") and not Path(values.folder).is_dir():
        read_address(parser, values)
    values.folder = Path(values.folder).expanduser() if values.folder else None
    check_options(parser, IngestOptions(**vars(values)))
    return values


def check_options(parser: argparse.ArgumentParser, options: IngestOptions) -> None:
    """End the process with status 2 where options are wrong, or do not fit together."""
    if options.indexer and options.blobs:
        parser.error("--indexer is for a folder")
    if options.indexer and not (options.storage or "").startswith("/subscriptions/"):
        parser.error("--indexer needs --storage /subscriptions/.../storageAccounts/NAME")
    if options.max_megabytes < 1:
        parser.error("--largest must be 1 or more")
    if not 1 <= options.seconds < math.inf:
        parser.error("--seconds must be 1 or more")
    if options.storage and not options.indexer:
        parser.error("--storage is for --indexer alone")
    if options.permissions and not options.blobs:
        parser.error("--permissions is for documents in Data Lake Storage")
    if options.permissions and options.no_rules:
        parser.error("--permissions and --no-rules contradict each other")


def read_address(parser: argparse.ArgumentParser, values: argparse.Namespace) -> None:
    """Read an address in place of a folder."""
    from ingest.storage.address import parse_address

    try:
        values.blobs, values.folder = parse_address(values.folder), None
    except UsageError as error:
        parser.error(str(error))


async def run(options: IngestOptions, settings: Settings) -> None:
    """Index documents and print a summary. Raises HANDLED_ERRORS."""
    start = time.monotonic()
    if options.blobs:
        from ingest.storage.documents import open_documents

        async with open_documents(settings, options, options.blobs) as (blobs, readers):
            return await index(options, settings, blobs, readers, start)
    if options.folder is None:
        raise UsageError(NO_FOLDER)
    if options.no_rules:
        acl.check_no_rules(options.folder)
    listing, rules = list_documents(options.folder, options.no_rules)
    if options.indexer:
        from ingest.indexer.run import index_folder

        results = await index_folder(settings, listing, options)
        print_lines(format_indexer_summary(*results, time.monotonic() - start))
        return
    await index(options, settings, listing, rules, start)


async def index(
    options: IngestOptions,
    settings: Settings,
    listing: Listing[SourceFile],
    rules: AccessRules,
    start: float,
) -> None:
    """Bring the index up to date with a listing, in a run since `start`. Raises HANDLED_ERRORS."""
    public = rules.public_by_default(file.name for file in listing.files)
    await check_restricted_files(settings, options, public)
    async with open_setup(settings, options, restricted=not rules.is_empty) as setup:
        print_lines([f"{len(listing.files)} documents in {options.place} -> {setup.description}"])
        summary = await index_documents(options, setup, listing, rules)
    print_lines(format_summary(summary, time.monotonic() - start))
    if summary.is_unreadable:
        raise UsageError(NOTHING_READ.format(folder=options.place))
    if summary.is_outdated:
        raise UsageError(OUTDATED)
    if setup.enricher.embed is None and settings.embeddings != "off":
        print_lines([suggest_embedding_model(settings)])


def print_lines(lines: Iterable[str]) -> None:
    """Print lines and flush after each."""
    for line in lines:
        print(line, flush=True)


def list_documents(folder: Path, no_rules: bool = False) -> tuple[Listing[FolderFile], acl.Acl]:
    """List the documents of a folder and read its access rules. Raises UsageError, AclError.

    `no_rules` states that no file has rules: files that look like access rules are skipped.
    """
    if not folder.is_dir():
        several = any(Path(part).is_dir() for part in str(folder).split())
        raise UsageError(f"{folder} is not a folder that can be read.{ONE_FOLDER * several}")
    listing = list_folder(folder)
    if not listing.files:  # The folder may not be mounted: --prune must not empty the index.
        print_lines(format_file_list("Skipped", listing.skipped))
        raise UsageError(f"{folder} has no documents.")
    names = [file.name for file in listing.files]
    return listing, acl.read_acl(folder, names, () if no_rules else listing.acl_files)


async def index_documents(
    options: IngestOptions, setup: IngestSetup, listing: Listing[SourceFile], rules: AccessRules
) -> IngestSummary:
    """Run the pipeline with a progress bar."""
    limits = SandboxLimits(max_bytes=options.max_megabytes * MEGABYTE, timeout=options.seconds)
    with tqdm(total=len(listing.files), unit="file", disable=None, leave=False) as bar:

        def update_bar(name: str) -> None:
            bar.set_postfix_str(escape_unprintable(name)[-40:], refresh=False)
            bar.update()

        async with SandboxReader(limits) as reader:
            pipeline = IngestPipeline(
                reader, setup.writer, setup.enricher, options.prune, update_bar
            )
            return await pipeline.run(listing, rules)


def format_summary(summary: IngestSummary, seconds: float) -> Iterator[str]:
    """Format the result of a run: totals, then each skipped file with the reason."""
    yield (
        f"{summary.indexed} documents put ({summary.passages} passages), "
        f"{summary.unchanged} unchanged, {summary.unreadable} unreadable, "
        f"{summary.unsupported} unsupported. "
        f"{summary.removed} removed, {summary.left_out} files left out, in {seconds:.1f} s."
    )
    if summary.stale:
        yield f"{summary.stale} more are in the index and not in the folder: --prune removes them."
    yield from format_file_list("Skipped", summary.skipped)


def suggest_embedding_model(settings: Settings) -> str:
    """Say that the search is by words alone, and which settings change that."""
    values = {"OPENAI_EMBEDDING_MODEL": "nomic-embed-text"}
    model = "one of your endpoint"
    if not settings.azure_search_endpoint and settings.embeddings is None:
        values, model = {"EMBEDDINGS": "builtin"}, "the built-in one"
    elif settings.azure_openai_endpoint:
        values = {"AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "text-embedding-3-small"}
    elif not settings.openai_base_url:
        model = "Ollama's"
        values["OPENAI_EMBEDDING_BASE_URL"] = "http://localhost:11434/v1"
    lines = (f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    return BY_WORDS_ALONE.format(model=model, settings=",\n".join(lines))


def format_indexer_summary(
    uploads: UploadResult, result: IndexerResult, seconds: float
) -> Iterator[str]:
    """Format the result of an indexer run: totals, then files with errors or warnings."""
    totals = f"{uploads.uploaded} files uploaded, {uploads.removed} removed"
    yield f"{totals}, in {seconds:.1f} s in all."
    yield f"The indexer took {result.indexed} files, and did not take {len(result.failed)}."
    yield "Its passages have no page numbers: a citation opens a PDF at its beginning."
    yield from format_file_list("Not uploaded", uploads.rejected)
    yield from format_file_list("Not taken", result.failed)
    yield from format_file_list("Taken with a warning", result.warnings)


def format_file_list(title: str, files: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Format a title and a line for each file; nothing when there are no files."""
    lines = [f"  {escape_unprintable(name)}: {reason}" for name, reason in sorted(files)]
    yield from [f"{title}:", *lines] if lines else ()


def escape_unprintable(name: str) -> str:
    """Escape what a terminal cannot show: control characters, and those outside its encoding."""
    escaped = "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)
    encoding = sys.stdout.encoding or "utf-8"
    return escaped.encode(encoding, "backslashreplace").decode(encoding)


def error_message(error: Exception) -> str:
    """The message for the operator, with the cause that the app only writes to its log."""
    cause = getattr(error, "cause", None)
    return f"{error} ({cause})" if cause else str(error)


def run_command(work: Callable[[Settings], Coroutine[Any, Any, Iterable[str]]]) -> int:
    """Run a command with the settings, and print its lines. Returns 0, or 1 on an error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    quiet_libraries()
    try:
        settings = configuration.read_settings(read_environment(os.environ))
        print_lines(asyncio.run(work(settings)))
    except HANDLED_ERRORS as error:
        print(error_message(error), file=sys.stderr)
        return 1
    return 0


async def run_options(values: argparse.Namespace, settings: Settings) -> tuple[str, ...]:
    """Index the folder of the command line, or the one that was indexed last.

    Returns nothing more to print. Raises HANDLED_ERRORS.
    """
    options = IngestOptions(**vars(values))
    if options.place is None:
        options = replace(options, folder=find_indexed_folder(settings))
    await run(options, settings)
    return ()


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns 0 (also when files were skipped), 1 on an error, 130 on Ctrl+C."""
    values = parse_arguments(arguments)
    try:
        return run_command(partial(run_options, values))
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130
