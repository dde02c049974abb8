"""What is left without some parts passes its own checks and tests: `make test-removal`.

Each part alone, all parts, and five random sets take hours. PAIRS=1: all pairs of parts that change
the same Python file, without the tests.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest

from scripts.parts.plan import catalog_of, plan
from scripts.parts.project import read_tree
from tests.support.checks import PYTHON, run_checks
from tests.support.packaging import clone_repository
from tests.support.servers import ROOT

CATALOG = catalog_of(read_tree(ROOT))
TESTS = (*PYTHON, "pytest", "-q", "-p", "no:cacheprovider", "-n", "logical", "-m", "not slow")
OWN = ("PAIRS", "REMOVAL")  # with which the tests of the rest would begin this again
pytestmark = pytest.mark.skipif("REMOVAL" not in os.environ, reason="hours: make test-removal")


def remove(parts: Sequence[str], folder: Path, *more: Sequence[str]) -> None:
    """Remove parts from a copy of the project, and run the checks and `more` on the rest."""
    clone = clone_repository(folder / "rest")
    env = {name: value for name, value in os.environ.items() if name not in OWN}
    removal = (*PYTHON, "scripts.parts", "remove", *parts, "--no-check")
    subprocess.run(removal, cwd=clone, env=env, check=True)
    run_checks(clone, *more, env=env)


@pytest.mark.parametrize("name", CATALOG.removable)
def test_rest_without_a_part_passes_its_tests(name: str, tmp_path: Path) -> None:
    remove([name], tmp_path, TESTS)


def test_rest_without_every_part_passes_its_tests(tmp_path: Path) -> None:
    remove(CATALOG.removable, tmp_path, TESTS)


@pytest.mark.parametrize("_number", range(5))
def test_rest_without_random_parts_passes_its_tests(_number: int, tmp_path: Path) -> None:
    parts = random.sample(CATALOG.removable, 8)
    print("removing", *parts)  # pytest shows it if the test fails

    remove(parts, tmp_path, TESTS)


def pairs() -> Iterator[tuple[str, str]]:
    """The pairs of parts that change the same Python file."""
    before, changed = read_tree(ROOT), dict[str, set[str]]()
    for name in CATALOG.removable if "PAIRS" in os.environ else ():
        tree = dict(before)
        plan(tree, [name])
        changed[name] = {
            path for path in tree if path.endswith(".py") and tree[path] != before[path]
        }
    yield from (pair for pair in combinations(changed, 2) if changed[pair[0]] & changed[pair[1]])


@pytest.mark.parametrize("parts", list(pairs()), ids=" ".join)
def test_rest_without_a_pair_passes_its_checks(parts: Sequence[str], tmp_path: Path) -> None:
    remove(parts, tmp_path)
