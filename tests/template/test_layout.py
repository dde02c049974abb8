"""Tests lie where a person, and the removal of a part, looks for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import ROOT

FOLDERS = ("tests", "bench", "evals")


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
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name in list_imports(file)
        if name.startswith("tests.") and not name.startswith("tests.support")
    ] == []
