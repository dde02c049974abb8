"""What does a run say of itself, to whoever started it?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shared.ingest.pipeline import Summary

if TYPE_CHECKING:  # they bring the libraries of Azure
    from shared.ingest.indexer.indexer import Outcome
    from shared.ingest.indexer.run import UploadResult


def summed_up(done: Summary, seconds: float) -> Iterator[str]:
    """What was done, and each file that gave nothing, with the reason."""
    yield (
        f"{done.put} documents put ({done.passages} passages), {done.unchanged} unchanged, "
        f"{done.removed} removed, {len(done.skipped)} skipped, in {seconds:.1f} s."
    )
    if done.gone:
        yield f"{done.gone} more are in the index and not in the folder: --prune removes them."
    yield from listed("Skipped", done.skipped)


def of_service(uploaded: UploadResult, outcome: Outcome, seconds: float) -> Iterator[str]:
    """What was uploaded, and what the search service made of it."""
    yield f"{uploaded.new} files uploaded, {uploaded.removed} removed, in {seconds:.1f} s in all."
    yield f"The indexer took {outcome.done} files, and did not take {len(outcome.failed)}."
    yield "Its passages have no page numbers: a citation opens a PDF at its beginning."
    yield from listed("Not uploaded", uploaded.refused)
    yield from listed("Not taken", ((one.name, one.reason) for one in outcome.failed))
    yield from listed("Taken with a warning", ((one.name, one.reason) for one in outcome.warned))


def listed(title: str, files: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A title and a line for each file; nothing where there is none."""
    lines = [f"  {safe(name)}: {reason}" for name, reason in sorted(files)]
    yield from [f"{title}:", *lines] if lines else ()


def safe(name: str) -> str:
    """A file's name as every terminal can show it."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)
    known = sys.stdout.encoding or "utf-8"
    return shown.encode(known, "backslashreplace").decode(known)
