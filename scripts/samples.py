"""How do the sample documents get into the index, while the roles that allow it still spread?"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tqdm import tqdm

from shared.bootstrap.build import SHARED_FOLDER
from shared.ingest.cli import ENDING, documents, put, say
from shared.ingest.report import summed_up
from shared.ingest.setup import Options, made
from shared.ingest.sources.scan import Listing
from shared.ingest.targets.index_writer import DocumentRejected
from shared.settings import Settings

SAMPLES = SHARED_FOLDER / "data" / "documents"
# A role that was given just now, and a model that was deployed just now, are there in minutes.
TRANSIENT_STATUSES = (401, 403, 404)
WAITING_MESSAGE = (
    "Azure says {status} for now: what was made or allowed just now takes some minutes to act. "
    "Trying again in {pause:.0f} s, for {left:.0f} minutes at most."
)
OTHER_DOCUMENTS_MESSAGE = (
    "The index {index} holds documents and none of the samples: it is left as it is. "
    "`make index DOCS=path/to/documents` changes it."
)


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    """How many seconds refusals are waited out, and how many lie between two tries."""

    longest: float = 900
    pause: float = 15


async def load_samples(settings: Settings, waiting: WaitPolicy) -> None:
    """Make the index and put the samples into it. Raises what ENDING names.

    What is whole in the index is not put again, so each try goes on where the last one ended.
    """
    begun = time.monotonic()
    while True:
        try:
            return await try_load(settings)
        except ENDING as ending:
            left = begun + waiting.longest - time.monotonic()
            status = transient_status(ending)
            if status is None or left < waiting.pause:
                raise
        say([WAITING_MESSAGE.format(status=status, pause=waiting.pause, left=left / 60)])
        await asyncio.sleep(waiting.pause)


def transient_status(ending: BaseException | None) -> int | None:
    """The status behind a failure, where it is one that passes when roles have spread."""
    while ending is not None:
        status = getattr(ending, "status_code", None)
        if status in TRANSIENT_STATUSES:
            return int(status)
        ending = ending.__cause__
    return None


class UploadForbidden(DocumentRejected):
    """Storage refused a file: a run goes on without it, and this one may not."""

    status_code = 403


async def try_load(settings: Settings) -> None:
    """One try. Raises what ENDING names."""
    begun = time.monotonic()
    found, rules = documents(SAMPLES)
    parts = await made(settings, SAMPLES, Options(), bool(rules.rules), tqdm.write)
    try:
        if has_other_documents(await parts.target.known(), found):
            return say([OTHER_DOCUMENTS_MESSAGE.format(index=settings.search_index)])
        say([f"{len(found.files)} sample documents -> {parts.told}"])
        summary = await put(Options(), parts, found, rules)
    finally:
        await parts.close()
    for _, reason in summary.skipped:
        if re.search(r"status 40[13]\b", reason):
            raise UploadForbidden(reason)
    say(summed_up(summary, time.monotonic() - begun))


def has_other_documents(known: Mapping[str, str], found: Listing) -> bool:
    """Whether somebody has put documents of their own in the samples' place."""
    return bool(known) and known.keys().isdisjoint(file.name for file in found.files)
