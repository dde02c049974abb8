"""The gate detects an app that has become worse, and lets a neutral change pass.

Each change is made to a copy of the app, which is asked the sample questions once. The gate then
judges ten samples of the questions, each drawn with one of `SEEDS`.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from evals.app import run_app
from evals.gate import read_gate
from evals.metrics import score
from evals.questions import SAMPLE_QUESTIONS, read_questions
from evals.records import Record
from evals.runs import Row, Run
from evals.target import open_target
from tests.support.isolation import app_copy

pytestmark = pytest.mark.slow

SEEDS = range(1, 11)
SAMPLE_SIZE = 80
DOCUMENTS = "shared/data/documents"
SPLITTING = "ingest/splitting/passages.py"
RANKING = "shared/retrieval/sqlite/ranking.py"
SIMILARITIES = "zip_longest(scores, similarities, "


class Change(NamedTuple):
    """A replacement in a file of the app, a setting of it, or both."""

    file: str = ""
    old: str = ""
    new: str = ""
    top: str = ""


def chunk_size(tokens: int) -> Change:
    return Change(SPLITTING, "MAX_TOKENS = 350", f"MAX_TOKENS = {tokens}")


WORSE = {
    "passages of 60 tokens": chunk_size(60),
    "ranking that prefers dissimilar passages": Change(
        RANKING, SIMILARITIES, "zip_longest(scores, [-5 * each for each in similarities], "
    ),
    "one passage in the prompt": Change(top="1"),
    "citations without their page": Change(
        "shared/models/demo.py", "[{citation}]", "[{citation.partition('#')[0]}]"
    ),
}
NEUTRAL = {
    "passages of 300 tokens": chunk_size(300),
    "passages of 400 tokens": chunk_size(400),
    "ranking by BM25 alone": Change(RANKING, "_SIMILARITY_WEIGHT = 0.7", "_SIMILARITY_WEIGHT = 0"),
    "twelve passages in the prompt": Change(top="12"),
}


def measure(change: Change, folder: Path) -> list[Row]:
    """Ask a changed copy of the app, whose index is built by the changed code."""
    app = shutil.copytree(app_copy(), folder / "app")
    if change.file:
        path = app / change.file
        text = path.read_text("utf-8")
        assert text.count(change.old) == 1
        path.write_text(text.replace(change.old, change.new), "utf-8")
    command = [sys.executable, "-m", "ingest", DOCUMENTS]
    subprocess.run(command, cwd=app, check=True, capture_output=True, timeout=120)
    settings = {"INDEX_FILE": "index.db", "DEFAULT_TOP": change.top}
    with run_app(settings, app) as url:
        records = asyncio.run(ask(url))
    assert all(record.reply for record in records)
    return [Row(record, score(record)) for record in records]


async def ask(url: str) -> list[Record]:
    async with open_target(url, {}) as target:
        await target.describe()  # raises if the changed app is not healthy
        return [await target.ask(question) for question in read_questions(SAMPLE_QUESTIONS)]


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    return measure(Change(), tmp_path_factory.mktemp("baseline"))


def count_detections(before: Sequence[Row], after: Sequence[Row]) -> int:
    """Return in how many of the samples the gate reports a metric as worse."""
    gate = read_gate().model_copy(update={"thresholds": {}})
    detections = 0
    for seed in SEEDS:
        sample = sorted(random.Random(seed).sample(range(len(before)), SAMPLE_SIZE))
        accepted = {before[each].record.question.id: before[each].scores for each in sample}
        problems = list(gate.check(Run("", "", "", [after[each] for each in sample]), accepted))
        print(f"seed {seed}: {'; '.join(problems) or 'no worse'}")
        detections += bool(problems)
    return detections


@pytest.mark.parametrize("change", WORSE.values(), ids=WORSE)
def test_gate_detects_a_worse_app(change: Change, baseline: list[Row], tmp_path: Path) -> None:
    assert count_detections(baseline, measure(change, tmp_path)) == len(SEEDS)


@pytest.mark.parametrize("change", NEUTRAL.values(), ids=NEUTRAL)
def test_gate_passes_a_neutral_change(change: Change, baseline: list[Row], tmp_path: Path) -> None:
    after = measure(change, tmp_path)

    assert [row.scores for row in after] != [row.scores for row in baseline]  # times apart
    assert count_detections(baseline, after) == 0
