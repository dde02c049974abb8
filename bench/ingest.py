"""What does a run take, beyond reading? `python -m bench.ingest --files 200`

Made-up Markdown files of about a hundred passages each, read alone, and then put into a new
embedded index by the command itself, whose memory must not grow with the corpus.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from bench.corpus import FILE_PASSAGES, documents
from ingest.sandbox import SandboxReader


def write(folder: Path, files: int) -> None:
    """Write that many files of text into a folder."""
    for document in documents(files * FILE_PASSAGES, 0):
        path = folder / document.name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\n\n".join(passage.content for passage in document.passages)
        path.with_suffix(".md").write_text(text, "utf-8")


async def read(folder: Path) -> int:
    """Read every file as a run does, one after the other; how many passages they have."""
    async with SandboxReader() as reader:
        return sum(
            [len(await reader.read_passages(path, path.name)) for path in folder.rglob("*.*")]
        )


def main() -> None:
    """Write the files, index them, and print what it took."""
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "documents"
        folder.mkdir()
        write(folder, options.files)
        start = perf_counter()
        passages = asyncio.run(read(folder))
        reading = perf_counter() - start
        environment = {**os.environ, "INDEX_FILE": str(Path(home) / "index.db")}
        start = perf_counter()
        subprocess.run([sys.executable, "-m", "ingest", str(folder)], check=True, env=environment)
        seconds = perf_counter() - start
    # Of the largest of its processes: the run itself, or the one that reads.
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{options.files} files, {passages} passages: {seconds:.1f} s, {memory:.0f} MiB at most")
    print(f"{reading:.1f} s of it are reading: {seconds - reading:.1f} s beyond")


if __name__ == "__main__":
    main()
