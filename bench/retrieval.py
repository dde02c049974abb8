"""How well the embedded index ranks: `python -m bench.retrieval DATA`.

DATA has a folder for each judged set, in the layout of BEIR: `corpus.jsonl`, `queries.jsonl`,
`qrels/test.tsv`. A document is a passage, its title the heading. Questions count that have a
relevant passage in the corpus. nDCG is trec_eval's: the gain of a passage is its grade.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import log2
from pathlib import Path
from statistics import mean, median, quantiles
from time import perf_counter
from typing import Any

from shared.domain.events import Source
from shared.domain.overrides import Overrides, RetrievalMode
from shared.domain.request import User
from shared.retrieval.sqlite.retriever import SqliteRetriever

FILES = ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")
COLUMNS = ("nDCG@10", "recall@3", "recall@10", "median, ms", "p95, ms")

Grades = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Passages, and questions with the grades of their relevant passages."""

    passages: Sequence[Source]
    questions: Sequence[tuple[str, Grades]]


def read_set(folder: Path) -> JudgedSet:
    """Read a judged set. Raises OSError, ValueError, KeyError."""
    passages = [to_passage(row) for row in read_rows(folder / "corpus.jsonl")]
    known = {passage.id for passage in passages}
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text("utf-8").splitlines():
        query, passage, grade = line.split("\t")
        if passage in known and int(grade) > 0:  # the line with the names has no known passage
            grades[query][passage] = int(grade)
    texts = {row["_id"]: row["text"] for row in read_rows(folder / "queries.jsonl")}
    questions = [(texts[query], found) for query, found in grades.items() if query in texts]
    return JudgedSet(passages, questions)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def to_passage(row: Mapping[str, str]) -> Source:
    """Make the passage of a document, as indexing does: the heading above the text."""
    title = row.get("title") or ""
    content = f"{title}\n\n{row['text']}" if title else row["text"]
    # Without a path, whose words would be searched.
    return Source(row["_id"], content, sourcepage="", sourcefile=row["_id"], heading=title)


def ndcg(ranking: Sequence[str], grades: Grades, depth: int = 10) -> float:
    """Return the normalized discounted cumulative gain of a ranking."""
    ideal = sorted(grades.values(), reverse=True)
    return _gain([grades.get(id, 0) for id in ranking[:depth]]) / _gain(ideal[:depth])


def _gain(grades: Iterable[int]) -> float:
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades, 1))


def recall(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """Return the share of the relevant passages that are among the first."""
    return len(grades.keys() & set(ranking[:depth])) / len(grades)


async def measure(
    index: SqliteRetriever, judged: JudgedSet, mode: RetrievalMode = "text"
) -> tuple[float, ...]:
    """Ask the questions of a set, and return the figures of COLUMNS."""
    scores, took = [], []
    overrides = Overrides(top=10, retrieval_mode=mode)
    await index.search(User(), "warm", overrides)
    for text, grades in judged.questions:
        start = perf_counter()
        result = await index.search(User(), text, overrides)
        took.append((perf_counter() - start) * 1000)
        ranking = [source.id for source in result.sources]
        recalls = recall(ranking, grades, 3), recall(ranking, grades, 10)
        scores.append((ndcg(ranking, grades), *recalls))
    return *map(mean, zip(*scores, strict=True)), median(took), quantiles(took, n=20)[-1]


def read_sets(data: Path) -> Iterator[tuple[str, JudgedSet]]:
    """Read each complete set, with the name of its folder; print a line for each other one."""
    for folder in sorted(filter(Path.is_dir, data.iterdir())):
        if missing := [name for name in FILES if not (folder / name).is_file()]:
            print(f"{folder.name:<24}left out: it has no {', '.join(missing)}")
            continue
        judged = read_set(folder)
        if len(judged.questions) < 2:  # the fewest that have percentiles
            print(f"{folder.name:<24}left out: it has fewer than 2 judged questions")
            continue
        yield folder.name, judged


def print_row(name: str, number: int, figures: Sequence[float]) -> None:
    """Print the figures of one set."""
    quality = "".join(f"{figure:>11.4f}" for figure in figures[:3])
    times = "".join(f"{figure:>11.1f}" for figure in figures[3:])
    print(f"{name:<24}{number or '':>10}{quality}{times}", flush=True)


def main() -> None:
    """Measure each complete set, and print a table with the mean of the sets."""
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval", description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the judged sets")
    rows = []
    print(f"{'set':<24}{'questions':>10}" + "".join(f"{column:>11}" for column in COLUMNS))
    for name, judged in read_sets(parser.parse_args().data):
        with closing(SqliteRetriever(judged.passages)) as index:
            rows.append(asyncio.run(measure(index, judged)))
        print_row(name, len(judged.questions), rows[-1])
    if rows:
        print_row("mean", 0, [mean(column) for column in zip(*rows, strict=True)])


if __name__ == "__main__":
    main()
