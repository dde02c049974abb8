"""The embedded index at size: `python -m bench.index --passages 100000 [--vectors 1536]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.sqlite.retriever import Embedding, SqliteRetriever

MODEL = "bench"
NOBODY = User()
MEMBER = User("anna", tuple(f"group-{number}" for number in range(50)))  # of 60
MIB = 1024 * 1024


async def build(index: Path, passages: int, dimensions: int) -> float:
    """Fill an index; the seconds that it took, without the making of the passages."""
    from bench.corpus import documents
    from ingest.targets.sqlite.writer import SqliteIndexWriter
    from shared.retrieval.sqlite.schema import IndexMeta

    target = SqliteIndexWriter(index, IndexMeta(None, MODEL if dimensions else None, dimensions))
    await target.fingerprints()
    seconds = 0.0
    for document in documents(passages, dimensions):
        start = perf_counter()
        await target.put(document, Path(document.name))
        seconds += perf_counter() - start
    start = perf_counter()
    await target.finish()
    await target.close()
    return seconds + perf_counter() - start


async def ask(index: SqliteRetriever, questions: Sequence[str], user: User = NOBODY) -> list[float]:
    """The milliseconds of each question, asked one after the other."""
    took, overrides = [], Overrides(top=3, use_groups_security_filter=True)
    for question in questions:
        start = perf_counter()
        await index.search(user, question, overrides)
        took.append((perf_counter() - start) * 1000)
    return took


def measure(path: Path, questions: Sequence[str], dimensions: int) -> dict[str, Any]:
    """What opening and asking cost a process that does nothing else."""

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[float(hash(text) % (place + 2)) for place in range(dimensions)] for text in texts]

    embedding = Embedding(MODEL, embed) if dimensions else None
    asyncio.run(ask(SqliteRetriever([]), ["warm"]))
    before, start = memory(), perf_counter()
    with closing(SqliteRetriever.open(path, embedding)) as index:
        opened = (perf_counter() - start) * 1000
        first, *took = asyncio.run(ask(index, questions))
        after = memory()
        signed_in = asyncio.run(ask(index, questions, MEMBER))
    return {
        "opened, ms": opened,
        "first question, ms": first,
        "median, ms": median(took),
        "95th percentile, ms": quantiles(took, n=20)[-1],
        "slowest, ms": max(took),
        "signed in, median, ms": median(signed_in),
        "signed in, 95th percentile, ms": quantiles(signed_in, n=20)[-1],
        "memory added, MiB": after - before,
    }


def memory() -> float:
    """How much memory this process has now, in MiB. Read where Linux tells it; else nan."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return float(status.read_text().partition("VmRSS:")[2].split()[0]) / 1024


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.index", description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--vectors", type=int, default=0, help="numbers of each; 0: by words alone")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--index", type=Path, help="one that was built before")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main() -> None:
    """Build, ask in another process, and print a table."""
    options = arguments()
    if options.measure:
        print(json.dumps(measure(options.index, json.load(sys.stdin), options.vectors)))
        return
    from bench.corpus import questions

    with tempfile.TemporaryDirectory() as folder:
        index = options.index or Path(folder) / "index.db"
        built = (
            None if index.exists() else asyncio.run(build(index, options.passages, options.vectors))
        )
        flags = ["--measure", f"--index={index}", f"--vectors={options.vectors}"]
        command = [sys.executable, "-m", "bench.index", *flags]
        texts = json.dumps(list(questions(options.questions)))
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, input=texts)
        size = index.stat().st_size / MIB
    rows = {"built, s": built, "file, MiB": size, **json.loads(done.stdout)}
    for name, value in rows.items():
        print(f"{name:<32}{'-' if value is None else f'{value:.1f}':>10}")


if __name__ == "__main__":
    main()
