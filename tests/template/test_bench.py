"""The benchmarks run; their results are not asserted."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from bench.growth import MOST, ratio
from tests.support.isolation import app_copy


@pytest.mark.parametrize("vectors", [0, 8])
def test_index_benchmark_prints_a_table(vectors: int) -> None:
    options = ["--passages", "120", "--questions", "30", "--vectors", str(vectors)]
    command = [sys.executable, "-m", "bench.index", *options]
    done = subprocess.run(command, cwd=app_copy(), capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert re.search(r"^95th percentile, ms +[\d.]+$", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_run_benchmark_prints_its_figures() -> None:
    command = [sys.executable, "-m", "bench.ingest", "--files", "4"]
    done = subprocess.run(command, cwd=app_copy(), capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^4 files, \d+ passages: [\d.]+ s, \d+ MiB at most$", done.stdout, re.MULTILINE
    )
    assert re.search(r"^[\d.]+ s of it are reading: -?[\d.]+ s beyond$", done.stdout, re.MULTILINE)


def test_memory_benchmark_prints_a_table() -> None:
    command = [sys.executable, "-m", "bench.memory", "--conversations", "30", "--turns", "1"]
    done = subprocess.run(command, cwd=app_copy(), capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert re.search(r"^first page of 30 +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE)
    assert re.search(r"^page at 20 +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE)


def test_growth_benchmark_prints_a_table() -> None:
    command = [sys.executable, "-m", "bench.growth", "--size", "10"]
    done = subprocess.run(command, cwd=app_copy(), capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert re.search(r"^follow-ups +lines( +[\d.]+){6} +[\d.-]+$", done.stdout, re.MULTILINE)
    assert re.search(r"^/v1/chat/completions +a state( +[\d.]+){6}", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_growth_benchmark_detects_quadratic_growth() -> None:
    assert ratio([1, 4, 16, 64, 256, 1024]) > MOST
    assert ratio([6000]) > MOST
    assert ratio([10, 19, 45, 85, 170, 350]) < MOST
    assert ratio([0.01, 0.1, 0.2, 1, 4, 16]) < MOST
