"""Removes imports and variables that nothing uses, and formats the files that have changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.parts.removal import Tree, text_files

RULES = "B007,F401,F811,F841,I,PIE790,RUF059,RUF100"
FIX = ("check", "--fix", "--unsafe-fixes", "--quiet", "--exit-zero", "--extend-select", RULES)


@contextmanager
def written(tree: Tree) -> Iterator[Path]:
    """Write the Python files, and the settings of the tools, to a temporary folder."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path in (*(path for path, _ in text_files(tree, ".py")), "pyproject.toml"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(str(tree[path]), "utf-8")
        yield folder


def tidy(tree: Tree, before: Tree) -> None:
    """Run ruff over the Python files that have changed. Raises CalledProcessError."""
    changed = [path for path, text in text_files(tree, ".py") if before.get(path) != text]
    if not changed:
        return
    with written(tree) as folder:
        for arguments in (FIX, ("format", "--quiet")):
            command = (sys.executable, "-m", "ruff", *arguments, "--no-cache", *changed)
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for path in changed:
            tree[path] = (folder / path).read_text("utf-8")
