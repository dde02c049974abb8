"""Tests lie where a person, and the removal of a part, looks for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.packaging import list_project_files
from tests.support.servers import ROOT

FOLDERS = ("tests", "bench", "evals")
UNIT = ROOT / "tests" / "unit"


def list_imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_tests_share_is_in_support(folder: str) -> None:
    assert [
        f"{file.relative_to(ROOT)}: {name}"
        for file in map(ROOT.joinpath, list_project_files())  # not those of npm's packages
        if file.is_relative_to(ROOT / folder) and file.suffix == ".py"
        for name in list_imports(file)
        if name.startswith("tests.") and not name.startswith("tests.support")
    ] == []


def list_modules(file: Path) -> Iterator[Path]:
    """The modules, or packages, that a unit test may be about: `test_y_topic.py` is about `y`."""
    words = file.stem.removeprefix("test_").split("_")
    folder = file.relative_to(UNIT).parent
    for count in range(len(words), 0, -1):
        yield from (top / folder / "_".join(words[:count]) for top in (ROOT / "shared", ROOT))


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_unit_tests_are_found_by_the_path_of_their_module() -> None:
    """`tests/unit/x/test_y.py` is about `shared/x/y.py`, or `x/y.py` beside `shared/`."""
    assert [
        str(file.relative_to(ROOT))
        for file in sorted(UNIT.rglob("test_*.py"))
        if not any(map(is_module, list_modules(file)))
    ] == []
