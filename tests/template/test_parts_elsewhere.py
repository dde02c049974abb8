"""What is not Python mentions a removed part nowhere: for each part, in a copy of the project."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache

import pytest
import yaml

from scripts.parts.bicep import fold_file
from scripts.parts.elsewhere import MARKERS, NOT_PAGES
from scripts.parts.markdown import Links, read_anchors
from scripts.parts.mentions import find_mentions
from scripts.parts.plan import catalog_of, is_on, plan
from scripts.parts.project import read_tree
from scripts.parts.removal import Removal, Tree, text_files
from scripts.parts.table import PAGE, write_table
from tests.support.servers import ROOT

BEFORE = read_tree(ROOT)
CATALOG = catalog_of(BEFORE)
ALL_BUT = "all but azure-search azure-openai"
NAMES = [*CATALOG.removable, ALL_BUT]


@cache
def remove(name: str) -> tuple[Tree, Removal]:
    """The project without a part, or without most."""
    tree = dict(BEFORE)
    names = CATALOG.all_but(ALL_BUT.split()[2:]) if name == ALL_BUT else [name]
    return tree, plan(tree, names)


def pages(tree: Tree) -> dict[str, str]:
    return {name: text for name, text in text_files(tree, ".md") if not name.startswith(NOT_PAGES)}


@pytest.mark.parametrize("name", NAMES)
def test_docs_and_comments_do_not_mention_it(name: str) -> None:
    tree, removal = remove(name)
    mentions = find_mentions(tree, removal)
    files = pages(tree) | {path: text for path, text in text_files(tree, ".http")}
    lines = [f"{path}: {line}" for path, text in files.items() for line in text.split("\n")]
    for endings, marker in MARKERS.items():
        for path, text in text_files(tree, *endings):
            comments = re.findall(rf"(?m)(?:^|\s){marker} .*|@description.*", text)
            lines += [f"{path}: {line}" for line in comments if path != "parts.toml"]

    assert [line for line in lines if mentions(line)] == []


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    tree, _ = remove(name)
    anchors = {path: read_anchors(text) for path, text in pages(tree).items()}
    dead = Links.mentions
    lines = [
        f"{path}: {line}"
        for path, text in pages(tree).items()
        for line in text.split("\n")
        if dead(Links(path, tree, anchors, lambda text: False), line)
    ]

    assert lines == []


@pytest.mark.parametrize("name", NAMES)
def test_files_can_still_be_read(name: str) -> None:
    tree, _ = remove(name)
    for path, text in text_files(tree, ".json"):
        assert not path.startswith(("infra/", ".vscode/", "local.")) or json.loads(text)
    for path, text in text_files(tree, ".yaml", ".yml"):
        assert path.startswith("tests/") or yaml.safe_load(text)
    for path, text in text_files(tree, ".bicep"):
        assert fold_file(text, {}) == text, path
    assert tomllib.loads(str(tree["pyproject.toml"]))


@pytest.mark.parametrize("name", NAMES)
def test_tables_keep_their_columns(name: str) -> None:
    tree, _ = remove(name)
    for path, text in pages(tree).items():
        for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
            counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}

            assert len(counts) == 1, f"{path}: {table}"


def test_table_of_parts_is_the_one_of_the_catalog() -> None:
    gone = [name for name in CATALOG.parts if not is_on(BEFORE, CATALOG, name)]
    is_current = BEFORE[PAGE] == write_table(BEFORE, CATALOG, gone)

    assert is_current, "run `.venv/bin/python -m scripts.parts.table`"
