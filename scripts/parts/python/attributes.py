"""Finds the uses of attributes that are gone, by mypy: a name alone does not say whose it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.parts.python.tidy import written
from scripts.parts.removal import Tree, text_files

Place = tuple[int, int, str]  # the line, the column (from 0) where the expression begins, the name
MESSAGES = "has no attribute|Cannot determine type of"
ERROR = re.compile(rf'^([^:\n]+):(\d+):(\d+): error: .*(?:{MESSAGES}) "(\w+)"', re.MULTILINE)
OPTIONS = ("--explicit-package-bases", "--show-column-numbers", "--no-error-summary", "--no-pretty")


def find_missing_attributes(tree: Tree) -> dict[str, set[Place]]:
    """Find by file the uses of attributes that their class does not have.

    Raises CalledProcessError if mypy cannot check the files.
    """
    paths = [path for path, _ in text_files(tree, ".py")]
    cache = Path(os.environ.get("MYPY_CACHE_DIR", ".mypy_cache")).resolve()
    with written(tree) as folder:
        command = (sys.executable, "-m", "mypy", *OPTIONS, "--cache-dir", str(cache), *paths)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode > 1:  # 1: it has found errors, which is what it is for
        done.check_returncode()
    places: dict[str, set[Place]] = {}
    for path, line, column, name in ERROR.findall(done.stdout):
        places.setdefault(path, set()).add((int(line), int(column) - 1, name))
    return places
