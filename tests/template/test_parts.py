"""What is left of the project without a part is whole, and mentions it nowhere.

A plan takes a minute, so one test checks all of it, and parts are removed in groups.
`make test-removal` removes each part alone, and runs the tests of what is left.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.parts.bicep import fold_file
from scripts.parts.catalog import Catalog
from scripts.parts.elsewhere import MARKERS, NOT_PAGES
from scripts.parts.markdown import Links, read_anchors
from scripts.parts.mentions import find_mentions
from scripts.parts.plan import catalog_of, is_on, plan
from scripts.parts.project import read_tree
from scripts.parts.python.modules import read_module
from scripts.parts.python.tidy import written
from scripts.parts.removal import Removal, Tree, text_files
from scripts.parts.table import PAGE, write_table
from tests.support.checks import run_checks
from tests.support.servers import ROOT

BEFORE = read_tree(ROOT)
CATALOG = catalog_of(BEFORE)
GROUPS = 6  # each part is in one, apart from its neighbours in the catalog
SETS: dict[str, tuple[str, ...]] = {
    f"group {number + 1}": CATALOG.removable[number::GROUPS] for number in range(GROUPS)
}
SETS["every part"] = CATALOG.removable  # as `make keep PARTS="azure-search azure-openai"` does
if "REMOVAL" in os.environ:
    SETS |= {name: (name,) for name in CATALOG.removable}
# Without these no question is answered, whatever else is removed.
CORE = {
    "shared/app.py": "handle_call",
    "shared/bootstrap/build.py": "_make_rag",
    "shared/bootstrap/models.py": "make_router",
    "shared/bootstrap/search.py": "make_retriever",
    "shared/protocols/ai_chat/routes.py": "chat",
    "shared/rag/flow.py": "stream_answer",
    "scripts/after_provision.py": "run",
}


@pytest.fixture(autouse=True)
def mypy_cache(tmp_path: Path) -> Iterator[None]:
    """A cache of its own for each test: mypy fails where two write the same one, and takes longer
    with that of another removal.
    """
    cache = tmp_path / "cache"
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPY_CACHE_DIR", str(cache))
        yield
    shutil.rmtree(cache, ignore_errors=True)  # 100 MB


def remove(*names: str) -> tuple[Tree, Removal]:
    """The project without parts."""
    tree = dict(BEFORE)
    return tree, plan(tree, names)


@pytest.mark.parametrize("name", SETS)
def test_rest_is_whole_and_does_not_mention_it(name: str) -> None:
    check(*SETS[name])


def test_rest_without_random_parts_is_whole() -> None:
    parts = random.sample(CATALOG.removable, random.randrange(2, len(CATALOG.removable)))
    print("removing", *parts)  # pytest shows it if the test fails

    check(*parts)


def check(*names: str) -> None:
    tree, removal = remove(*names)

    with written(tree) as folder:
        run_checks(folder)
    check_core(tree)
    check_mentions(tree, removal)
    check_links(tree)
    check_files_can_be_read(tree)
    check_columns(tree)


def test_order_of_removal_does_not_matter() -> None:
    seed = random.randrange(1000)
    first, second = random.Random(seed).sample(CATALOG.removable, 2)
    tree, _ = remove(first)
    plan(tree, [second])
    at_once, _ = remove(first, second)

    assert dict(text_files(tree, ".py")) == dict(text_files(at_once, ".py")), (first, second, seed)


def pages(tree: Tree) -> dict[str, str]:
    return {name: text for name, text in text_files(tree, ".md") if not name.startswith(NOT_PAGES)}


def check_core(tree: Tree) -> None:
    missing = [
        f"{path}: {name}"
        for path, name in CORE.items()
        if name not in read_module(str(tree[path])).definitions
    ]

    assert missing == []


def check_mentions(tree: Tree, removal: Removal) -> None:
    mentions = find_mentions(tree, removal)
    files = {**pages(tree), PAGE: write_table(tree, Catalog())}  # without the names of parts
    files |= {path: text for path, text in text_files(tree, ".http")}
    lines = [f"{path}: {line}" for path, text in files.items() for line in text.split("\n")]
    for endings, marker in MARKERS.items():
        for path, text in text_files(tree, *endings):
            comments = re.findall(rf"(?m)(?:^|\s){marker} .*|@description.*", text)
            lines += [f"{path}: {line}" for line in comments if path != "parts.toml"]

    assert [line for line in lines if mentions(line)] == []


def check_links(tree: Tree) -> None:
    anchors = {path: read_anchors(text) for path, text in pages(tree).items()}
    lines = [
        f"{path}: {line}"
        for path, text in pages(tree).items()
        for links in [Links(path, tree, anchors, lambda text: False)]
        for line in text.split("\n")
        if links.mentions(line)
    ]

    assert lines == []


def check_files_can_be_read(tree: Tree) -> None:
    for path, text in text_files(tree, ".json"):
        assert not path.startswith(("infra/", ".vscode/", "local.")) or json.loads(text)
    for path, text in text_files(tree, ".yaml", ".yml"):
        assert path.startswith("tests/") or yaml.safe_load(text)
    for path, text in text_files(tree, ".bicep"):
        assert fold_file(text, {}) == text, path
    assert tomllib.loads(str(tree["pyproject.toml"]))


def check_columns(tree: Tree) -> None:
    """The rows of a table have as many columns."""
    for path, text in pages(tree).items():
        for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
            counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}

            assert len(counts) == 1, f"{path}: {table}"


def test_table_of_parts_is_the_one_of_the_catalog() -> None:
    gone = [name for name in CATALOG.parts if not is_on(BEFORE, CATALOG, name)]
    is_current = BEFORE[PAGE] == write_table(BEFORE, CATALOG, gone)

    assert is_current, "run `.venv/bin/python -m scripts.parts.table`"
