"""What the built-in embedding model adds to a search: `python -m bench.vectors DATA`.

DATA has judged sets as `bench.retrieval` reads them. For each: nDCG@10 by words, by vectors and by
both; then how many questions are refused because of a relevance below 1, of the set's own and of
those of the other sets. The latter has a meaning only if the sets are of one language and no set
answers the questions of another.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import mean

from bench.retrieval import JudgedSet, measure, read_sets
from shared.bootstrap.search import index_with_vectors
from shared.domain.overrides import Overrides, RetrievalMode
from shared.domain.request import User
from shared.retrieval.sqlite.retriever import SqliteRetriever

MODES: Sequence[RetrievalMode] = ("text", "vectors", "hybrid")
QUESTIONS = 60  # of a set that are asked for their relevance, drawn at random
COLUMNS = ("passages", "questions", "words", "vectors", "both", "ratio", "refused", "others")


async def share_refused(index: SqliteRetriever, questions: Sequence[str]) -> float:
    """Return the share of questions whose relevance is below 1."""
    results = [await index.search(User(), question, Overrides(top=1)) for question in questions]
    return mean((result.relevance or 0) < 1 for result in results) if results else 0.0


def draw_questions(judged: JudgedSet) -> list[str]:
    """Return some questions of a set, the same ones each time."""
    questions = [question for question, _ in judged.questions]
    return Random(1).sample(questions, min(QUESTIONS, len(questions)))


def main() -> None:
    """Print a row for each set."""
    parser = argparse.ArgumentParser(prog="python -m bench.vectors", description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the judged sets")
    sets = dict(read_sets(parser.parse_args().data))
    drawn = {name: draw_questions(judged) for name, judged in sets.items()}
    print(f"{'set':<24}" + "".join(f"{column:>10}" for column in COLUMNS))
    for name, judged in sets.items():
        others = [question for other in sets if other != name for question in drawn[other]]
        with closing(index_with_vectors(judged.passages)) as index:
            words, vectors, both = (asyncio.run(measure(index, judged, mode))[0] for mode in MODES)
            refused = [asyncio.run(share_refused(index, each)) for each in (drawn[name], others)]
        numbers = len(judged.passages), len(judged.questions)
        figures = words, vectors, both, both / words, *refused
        counts = "".join(f"{number:>10}" for number in numbers)
        print(f"{name:<24}{counts}" + "".join(f"{each:>10.3f}" for each in figures), flush=True)


if __name__ == "__main__":
    main()
