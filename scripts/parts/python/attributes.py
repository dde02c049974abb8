"""Finds the uses of attributes that are gone, by mypy: a name alone does not say whose it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from scripts.parts.python.tidy import written
from scripts.parts.python.unused import python_files
from scripts.parts.removal import Tree

Place = tuple[int, int, str]  # the line, the column (from 0) where the expression begins, the name
MESSAGES = "has no attribute|Unexpected keyword argument|Cannot determine type of"
ERROR = re.compile(rf'^([^:\n]+):(\d+):(\d+): error: .*(?:{MESSAGES}) "(\w+)"', re.MULTILINE)
OPTIONS = ("--show-column-numbers", "--no-error-summary", "--hide-error-context", "--no-pretty")


def find_missing_attributes(tree: Tree) -> dict[str, set[Place]]:
    """Find by file the uses of attributes, and of keywords, that their class does not have."""
    paths = [path for path, _ in python_files(tree)]
    cache = Path(".mypy_cache").resolve()
    with written(tree) as folder:
        command = (sys.executable, "-m", "mypy", *OPTIONS, "--cache-dir", str(cache), *paths)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    places: dict[str, set[Place]] = {}
    for path, line, column, name in ERROR.findall(done.stdout):
        places.setdefault(path, set()).add((int(line), int(column) - 1, name))
    return places
