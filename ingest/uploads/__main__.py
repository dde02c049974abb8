"""Reads what users have uploaded, and removes what they have deleted.

The app starts it: `python -m ingest.uploads FOLDER`. It ends when nothing is left to do, and
continues what a killed run has left: the folder of uploads says what there is, and the index of
uploads follows it.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from ingest.cli import run_command
from ingest.setup import IngestOptions, open_setup
from ingest.uploads.folder import FolderRun, FolderSource
from ingest.uploads.indexer import UploadIndexer, make_reader
from shared.retrieval.sqlite.schema import is_index_file
from shared.settings import MIB, Settings
from shared.uploads.folder.records import INDEX

LOWEST_PRIORITY = 19


async def run(root: Path, settings: Settings) -> tuple[str, ...]:
    """Read and remove until nothing is left to do. Returns nothing to print.

    Raises HANDLED_ERRORS of the command line.
    """
    index = root / INDEX
    if index.exists() and not is_index_file(index):
        index.unlink()  # damaged: it is made again of the files
    settings = settings.model_copy(update={"index_file": str(index)})
    async with (
        open_setup(settings, IngestOptions(folder=None), restricted=True) as setup,
        make_reader(settings.max_upload_megabytes * MIB) as reader,
    ):
        source = FolderSource(root)
        parts = (source, reader, setup.writer, setup.enricher, settings.max_upload_pages)
        await FolderRun(source, UploadIndexer(*parts)).run()
    return ()


def main(root: Path) -> int:
    """Run the command. Returns 0, or 1 on an error."""
    if hasattr(os, "nice"):
        os.nice(LOWEST_PRIORITY)
    return run_command(partial(run, root))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
