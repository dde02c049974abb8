"""The benchmarks run; their results are not asserted."""

from __future__ import annotations

import ast
import json
import re
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from bench.retrieval import ndcg
from bench.serving.processes import run_fakes
from bench.serving.report import list_rows
from bench.serving.requests import (
    CHAT_PATH,
    EMBEDDINGS_PATH,
    KEY,
    RESPONSES_PATH,
    SEARCH_PATH,
)
from tests.support.isolation import app_copy

SEARCH = {"search": "days", "select": "id,content", "top": 3}
COMPLETION = {"model": "chat", "messages": [{"role": "user", "content": "days"}], "stream": True}


def run_bench(module: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark that must succeed."""
    command = [sys.executable, "-m", module, *options]
    done = subprocess.run(command, cwd=app_copy(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done


MODULE = '''"""A docstring."""
import logging as log

def double(number: int = 1) -> int:
    log.info("doubled")
    if number > 9:
        raise ValueError("This number is too large.")
    return number * 2
'''


def test_faults_are_of_behaviour(tmp_path: Path) -> None:
    pytest.importorskip("mutmut", reason="`make mutants` installs it")
    from bench.mutants.faults import choose_faults

    (tmp_path / "module.py").write_text(MODULE)
    chosen = [choose_faults(tmp_path, 9, Random(seed)) for seed in range(20)]
    codes = {fault.code() for faults in chosen for fault in faults}

    assert len(codes) > 5
    for code in codes:
        assert ast.dump(ast.parse(code)) != ast.dump(ast.parse(MODULE))
        assert code.startswith(MODULE[: MODULE.index("(number")])
        assert 'log.info("doubled")' in code


@pytest.mark.parametrize("vectors", [0, 8])
def test_index_benchmark_prints_a_table(vectors: int) -> None:
    options = ["--passages", "120", "--questions", "30", "--vectors", str(vectors)]
    done = run_bench("bench.index", *options)

    assert re.search(r"^95th percentile, ms +[\d.]+$", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_run_benchmark_prints_its_figures() -> None:
    done = run_bench("bench.ingest", "--files", "4")

    assert re.search(
        r"^4 files, \d+ passages: [\d.]+ s, \d+ MiB at most$", done.stdout, re.MULTILINE
    )
    assert re.search(r"^[\d.]+ s of it are reading: -?[\d.]+ s beyond$", done.stdout, re.MULTILINE)


def test_retrieval_benchmark_measures_complete_sets_alone(tmp_path: Path) -> None:
    rows = {
        "corpus.jsonl": [
            {"_id": "a", "title": "Dental", "text": "Teeth."},
            {"_id": "b", "text": "Car."},
        ],
        "queries.jsonl": [{"_id": "1", "text": "dental"}, {"_id": "2", "text": "a car or dental"}],
    }
    for name in ("good", "partial"):
        (tmp_path / name / "qrels").mkdir(parents=True)
        for file, lines in rows.items():
            text = "".join(f"{json.dumps(line)}\n" for line in lines)
            (tmp_path / name / file).write_text(text, "utf-8")
    grades = "query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t0\n2\tb\t1\n2\tunknown\t1\n"
    (tmp_path / "good" / "qrels" / "test.tsv").write_text(grades, "utf-8")
    done = run_bench("bench.retrieval", str(tmp_path))

    assert re.search(r"^good +2 +[\d.]+ +1\.0000 +1\.0000( +[\d.]+){2}$", done.stdout, re.MULTILINE)
    assert re.search(r"^partial +left out: .*qrels/test.tsv$", done.stdout, re.MULTILINE)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [(["a", "b"], 1), (["b", "a"], 0.8597), (["x", "b"], 0.2398), ([], 0)],
)
def test_ndcg_is_the_share_of_the_best_possible_gain(ranking: list[str], expected: float) -> None:
    assert ndcg(ranking, {"a": 2, "b": 1}) == pytest.approx(expected, abs=1e-4)


def test_memory_benchmark_prints_a_table() -> None:
    done = run_bench("bench.memory", "--conversations", "30", "--turns", "1")

    assert re.search(r"^first page of 30 +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE)
    assert re.search(r"^page at 20 +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE)


def test_leak_benchmark_prints_the_memory_of_each_server() -> None:
    done = run_bench("bench.leak", "--requests", "60")

    assert re.search(r"^MiB after so many requests +6 +15 +30 +60 ", done.stdout)
    assert re.search(r"^dev server( +[\d.]+){4} +-?[\d.]+$", done.stdout, re.MULTILINE)


def test_overload_benchmark_counts_refusals_beside_open_streams() -> None:
    done = run_bench("bench.overload", "--streams", "3", "--rounds", "1")

    assert re.search(r"^ +3( +[\d.]+){5} +[1-9][\d.]*$", done.stdout, re.MULTILINE)


@pytest.mark.part("uploads")
def test_uploads_benchmark_prints_its_table() -> None:
    done = run_bench("bench.uploads", "--uploads", "2", "--seconds", "2")

    assert re.search(r"^reading them( +[\d.]+){6}$", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_start_benchmark_prints_its_tables() -> None:
    done = run_bench("bench.start", "--rounds", "1")

    assert re.search(r"^\| dev server +(\| \d+ +){5}\|$", done.stdout, re.MULTILINE)
    assert re.search(r"^\| openai +\| \d+ +\| \d+% +\|$", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_serving_benchmark_prints_a_table_and_writes_its_figures(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    before = tmp_path / "before"
    shutil.copytree(app_copy(), before)
    options = ["--rounds", "1", "--scale", "0.01", "--app", str(before), "--output", str(output)]
    done = run_bench("bench", "serving", *options)

    header, _, *rows = done.stdout.splitlines()
    columns = [cell.strip() for cell in header.split("|")]
    assert columns == ["", "", "raw relay", "SDKs as usual", "before", "this app", ""]
    measured = [row.split("|")[1].strip() for row in rows]
    assert measured == [row.label for row in list_rows()]
    assert all(row.split("|")[5].strip() for row in rows)
    assert set(json.loads(output.read_text())) == {row.case for row in list_rows()}


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        (SEARCH_PATH.replace("2026-04-01", "2020-06-30"), SEARCH, KEY),
        (SEARCH_PATH, SEARCH | {"query": "days"}, KEY),
        (SEARCH_PATH, SEARCH | {"select": "id,secret"}, KEY),
        (SEARCH_PATH, SEARCH, "another key"),
        (CHAT_PATH, COMPLETION | {"prompt": "days"}, KEY),
        (CHAT_PATH, COMPLETION | {"model": "another"}, KEY),
        (RESPONSES_PATH, COMPLETION, KEY),
        (EMBEDDINGS_PATH, {"model": "embedding", "input": "days", "encoding_format": "hex"}, KEY),
    ],
)
def test_services_of_the_serving_benchmark_reject_invalid_requests(
    tmp_path: Path, path: str, body: dict[str, Any], key: str
) -> None:
    with run_fakes(tmp_path) as fakes:
        trusted = ssl.create_default_context(cafile=str(fakes.authority))
        with httpx.Client(base_url=fakes.endpoint, verify=trusted, trust_env=False) as client:
            headers = {"Authorization": f"Bearer {key}"}
            response = client.post(path, json=body, headers=headers)
        log = (tmp_path / "fakes.log").read_text()

    assert response.status_code == 400
    assert log.startswith(f"rejected: POST {path} ")


def test_growth_benchmark_prints_a_table() -> None:
    done = run_bench("bench.growth", "--scale", "0.001")

    assert re.search(r"^follow-ups +lines +128( +[\d.]+){6} +-$", done.stdout, re.MULTILINE)
    assert re.search(r"^/chat +\.messages\[user\] +\d+( +[\d.]+){6} +- 200$", done.stdout, re.M)
    assert done.stderr == ""


def test_walk_prints_its_figures() -> None:
    done = run_bench("bench.walk", "--list")
    figures = re.search(r"files (\d+), functions (\d+), changes of file (\d+)\n$", done.stdout)

    assert figures, done.stdout
    assert all(int(figure) > 10 for figure in figures.groups())
    assert re.search(r"(?m)^shared/rag/flow.py: .*\banswer\b", done.stdout)
