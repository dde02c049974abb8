"""Lists the files that azd deploys, by azd's own algorithm (createDeployableZip, rzip).

`python -m tests.support.packaging > tests/template/package.txt` writes the list that a test
compares.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

from tests.support.servers import ROOT

needs_git = pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no git, or no clone of it"
)

ALWAYS_EXCLUDED = (".funcignore", "local.settings.json")
PACKAGE_LIST = ROOT / "tests" / "template" / "package.txt"


def list_package(folder: Path) -> list[str]:
    """Returns the files of a project that azd deploys, after `.funcignore`."""
    rules = GitIgnoreSpec.from_lines((folder / ".funcignore").read_text("utf-8").splitlines())
    return sorted(_walk(folder, "", rules))


def _walk(folder: Path, root: str, rules: GitIgnoreSpec) -> Iterator[str]:
    """Yields files depth first and follows links; an ignored folder is not entered."""
    for path in folder.iterdir():
        name = root + path.name
        if path.is_dir():
            if path.name != ".azure" and not rules.match_file(f"{name}/"):
                yield from _walk(path, f"{name}/", rules)
        elif path.name not in ALWAYS_EXCLUDED and not rules.match_file(name):
            yield name


def list_project_files() -> list[str]:
    """Returns the files that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def clone_project(folder: Path) -> Path:
    """Copies the files of a clone into `folder`."""
    return copy_files(ROOT, list_project_files(), folder)


def clone_repository(folder: Path) -> Path:
    """Copies the files of a clone into `folder`, as the first commit of a repository."""
    clone_project(folder)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    commit = ("commit", "--quiet", "--message", "first")
    for words in (("init", "--quiet", "--initial-branch", "main"), ("add", "--all"), commit):
        subprocess.run((*git, *words), cwd=folder, check=True)
    return folder


def copy_files(source: Path, names: list[str], folder: Path) -> Path:
    """Copies files of `source` to the same relative paths in `folder`."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, folder / name)
    return folder


def referenced_files(folder: Path, name: str) -> Iterator[str]:
    """Yield the files that pip reads for a requirements file, as paths in `folder`."""
    yield name
    text = (folder / name).read_text("utf-8")
    for path in re.findall(r"^(?:-c|-r|--constraint|--requirement)[ =](\S+)", text, re.MULTILINE):
        yield from referenced_files(folder, str((Path(name).parent / path).as_posix()))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print(*list_package(clone_project(Path(folder) / "clone")), sep="\n")
