"""The Python code that is left without a part compiles, and its imports lead somewhere."""

from __future__ import annotations

import random
from functools import cache

import pytest

from scripts.parts.plan import catalog_of, plan
from scripts.parts.project import read_tree
from scripts.parts.python.modules import module_name, read_module
from scripts.parts.python.unused import python_files
from scripts.parts.removal import Tree
from tests.support.servers import ROOT

BEFORE = read_tree(ROOT)
CATALOG = catalog_of(BEFORE)
MINIMAL = CATALOG.all_but(["azure-search", "azure-openai"])
FOLDERS = ("shared", "ingest", "evals", "bench", "scripts", "tests", "function_app")


@cache
def remove(*names: str) -> Tree:
    tree = dict(BEFORE)
    plan(tree, names)
    return tree


def find_problems(tree: Tree) -> list[str]:
    """What does not compile, and what is imported and not there."""
    files = python_files(tree)
    modules = {module_name(path): read_module(text) for path, text in files}
    for path, text in files:
        compile(text, path, "exec")
    return [
        f"{path}: {module} {name}"
        for path, text in files
        for module, name in read_module(text).every_import
        if module.partition(".")[0] in FOLDERS
        and not (
            module in modules
            and (not name or name in modules[module].bindings[""] or f"{module}.{name}" in modules)
        )
    ]


@pytest.mark.parametrize("name", CATALOG.removable)
def test_rest_imports_only_what_is_there(name: str) -> None:
    assert find_problems(remove(name)) == []


def test_minimal_template_imports_only_what_is_there() -> None:
    assert find_problems(remove(*MINIMAL)) == []


def test_order_of_removal_does_not_matter() -> None:
    seed = random.randrange(1000)
    first, second = random.Random(seed).sample(CATALOG.removable, 2)
    tree = dict(BEFORE)
    plan(tree, [first])
    plan(tree, [second])
    at_once = remove(first, second)

    assert dict(python_files(tree)) == dict(python_files(at_once)), f"{first} {second} ({seed})"
