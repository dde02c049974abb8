"""Reads the files that git tracks, and writes those that have changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.parts.catalog import PartsError
from scripts.parts.removal import Tree


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ("git", *arguments), cwd=folder, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise PartsError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def check_clean(folder: Path) -> None:
    """Raise PartsError where a change is not committed: git must show what the removal did."""
    if changes := _git(folder, "status", "--porcelain"):
        first = "\n".join(changes.splitlines()[:5])
        raise PartsError(f"commit or stash your changes first, then git shows all of it:\n{first}")


def read_tree(folder: Path) -> Tree:
    """Read the files that git tracks, but for those that are links or submodules."""
    names = _git(folder, "ls-files", "-z").split("\0")
    paths = [name for name in names if name and (folder / name).is_file()]
    return {name: _decode((folder / name).read_bytes()) for name in paths}


def _decode(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def write_tree(folder: Path, before: Tree, after: Tree) -> list[str]:
    """Write what has changed, and delete what is gone. Returns the paths that were written."""
    for name in before.keys() - after.keys():
        (folder / name).unlink()
        _remove_empty_folders(folder, (folder / name).parent)
    changed = sorted(name for name, data in after.items() if before.get(name) != data)
    for name in changed:
        data = after[name]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return changed


def _remove_empty_folders(folder: Path, path: Path) -> None:
    while path != folder and not any(path.iterdir()):
        path.rmdir()
        path = path.parent
