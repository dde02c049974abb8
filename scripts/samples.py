"""Loads the sample documents into the index, with retries while role assignments propagate."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ingest.cli import (
    HANDLED_ERRORS,
    error_message,
    format_summary,
    index_documents,
    list_documents,
    print_lines,
)
from ingest.scan import FolderFile, Listing
from ingest.setup import IngestOptions, open_setup
from ingest.targets.index_writer import DocumentRejected
from scripts.switches import is_off, is_on, is_private_network
from shared.settings import SHARED_FOLDER, Settings

SAMPLES = SHARED_FOLDER / "data" / "documents"
# New role assignments and model deployments take minutes to take effect.
TRANSIENT_STATUSES = (401, 403, 404)
NOT_LOADED_MESSAGE = (
    "AZURE_LOAD_SAMPLES is false: no sample documents are loaded. "
    "`make index DOCS=path/to/documents` creates the index with your documents."
)
PRIVATE_NETWORK_MESSAGE = (
    "Search and models accept requests only from the virtual network, so the index is not created "
    "yet. From a machine there: `azd env set AZURE_LOAD_SAMPLES true`, `azd hooks run "
    "postprovision`. Or allow your own address: AZURE_ALLOWED_IPS."
)
WAITING_MESSAGE = (
    "Azure responds with {status}: new roles and deployments take some minutes to take effect. "
    "Retrying in {pause:.0f} s, for {left:.0f} minutes at most."
)
OTHER_DOCUMENTS_MESSAGE = (
    "The index {index} holds other documents and none of the samples: it is not changed. "
    "`make index DOCS=path/to/documents` changes it."
)


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """The time limit of the retries and the pause between them, in seconds."""

    max_seconds: float = 900
    pause: float = 15


WAIT_POLICY = WaitPolicy()


class SamplesError(Exception):
    """The samples cannot be loaded; the message says why."""


async def prepare_samples(
    environment: Mapping[str, str], settings: Settings, wait_policy: WaitPolicy
) -> None:
    """Load the samples where azd's environment says so. Raises SamplesError."""
    if is_off(environment, "AZURE_LOAD_SAMPLES"):
        return print_lines([NOT_LOADED_MESSAGE])
    if is_private_network(environment) and not is_on(environment, "AZURE_LOAD_SAMPLES"):
        return print_lines([PRIVATE_NETWORK_MESSAGE])
    try:
        await wait_for_roles(partial(try_load, settings), wait_policy)
    except HANDLED_ERRORS as error:
        raise SamplesError(error_message(error)) from error


async def wait_for_roles(attempt: Callable[[], Awaitable[None]], wait_policy: WaitPolicy) -> None:
    """Repeat what new roles and deployments do not allow yet.

    Raises the errors of HANDLED_ERRORS: those of an attempt that are others, or the last one.
    """
    start = time.monotonic()
    while True:
        try:
            return await attempt()
        except HANDLED_ERRORS as error:
            remaining = start + wait_policy.max_seconds - time.monotonic()
            status = transient_status(error)
            if status is None or remaining < wait_policy.pause:
                raise
        print_lines(
            [WAITING_MESSAGE.format(status=status, pause=wait_policy.pause, left=remaining / 60)]
        )
        await asyncio.sleep(wait_policy.pause)


def transient_status(error: BaseException | None) -> int | None:
    """Return the HTTP status behind an error if a new role assignment may resolve it."""
    while error is not None:
        status = getattr(error, "status_code", None)
        if status in TRANSIENT_STATUSES:
            return int(status)
        error = error.__cause__
    return None


class UploadForbidden(DocumentRejected):
    """Storage denied the upload of a file: ingestion skips the file, this hook must retry."""

    status_code = 403


async def try_load(settings: Settings) -> None:
    """Create the index and upload the samples. Raises the errors of HANDLED_ERRORS.

    Complete documents are not uploaded again, so a retry continues where the last attempt ended.
    """
    start = time.monotonic()
    listing, rules = list_documents(SAMPLES)
    options = IngestOptions(SAMPLES)
    async with open_setup(settings, options, restricted=not rules.is_empty) as setup:
        if has_other_documents(await setup.writer.fingerprints(), listing):
            return print_lines([OTHER_DOCUMENTS_MESSAGE.format(index=settings.azure_search_index)])
        print_lines([f"{len(listing.files)} sample documents -> {setup.description}"])
        summary = await index_documents(options, setup, listing, rules)
    for _, reason in summary.skipped:
        if re.search(r"status 40[13]\b", reason):
            raise UploadForbidden(reason)
    print_lines(format_summary(summary, time.monotonic() - start))


def has_other_documents(indexed: Mapping[str, str], samples: Listing[FolderFile]) -> bool:
    """Whether the index has documents, but no sample."""
    return bool(indexed) and indexed.keys().isdisjoint(file.name for file in samples.files)
