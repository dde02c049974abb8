"""Lists the files that azd deploys, by azd's own algorithm (createDeployableZip, rzip).

`python -m tests.support.packaging > tests/template/package.txt` writes the list that a test
compares.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from tests.support.servers import ROOT

NEVER = (".funcignore", "local.settings.json")
LISTED = ROOT / "tests" / "template" / "package.txt"


def packaged(folder: Path) -> list[str]:
    """The files of a project that azd puts into the package, by `.funcignore`."""
    rules = GitIgnoreSpec.from_lines((folder / ".funcignore").read_text("utf-8").splitlines())
    return sorted(_walked(folder, "", rules))


def _walked(folder: Path, root: str, rules: GitIgnoreSpec) -> Iterator[str]:
    """Depth first, links followed; a folder that is left out is not looked into."""
    for path in folder.iterdir():
        name = root + path.name
        if path.is_dir():
            if path.name != ".azure" and not rules.match_file(f"{name}/"):
                yield from _walked(path, f"{name}/", rules)
        elif path.name not in NEVER and not rules.match_file(name):
            yield name


def tracked() -> list[str]:
    """The project's own files: those that git knows, or would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def cloned(folder: Path) -> Path:
    """The project as a clone has it, in `folder`."""
    return copied(ROOT, tracked(), folder)


def copied(source: Path, names: list[str], folder: Path) -> Path:
    """Some files of `source` at the same places in `folder`."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, folder / name)
    return folder


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as there:
        print(*packaged(cloned(Path(there) / "clone")), sep="\n")
