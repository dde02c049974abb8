"""The prepackage hook of azd for the reader of uploads: makes the folder that azd then zips.

It has the files of ingest/app at its root, and beside them the code that these import. A folder of
its own, because azd zips one folder, and the package of the answering app has no code that reads
documents.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
APP, TARGET = Path("ingest") / "app", Path("build") / "uploads"
CODE = ("shared", "ingest")
SUFFIXES = (".py", ".txt")  # the texts are the prompts
LEFT_OUT = ("__pycache__", "data", "static")
NO_APP = "ingest/app has no function_app.py: there is nothing that reads uploads."


def main(root: Path = ROOT) -> int:
    """Make the folder anew. Returns the exit status: 1 without a function_app.py."""
    if not (root / APP / "function_app.py").is_file():
        print(NO_APP, file=sys.stderr)
        return 1
    shutil.rmtree(root / TARGET, ignore_errors=True)
    for path in list_code(root):
        copy(root, path, TARGET / path)
    for name in ("function_app.py", "host.json"):
        copy(root, APP / name, TARGET / name)
    # As in ingest/app, from where the constraints are two folders up.
    requirements = (root / APP / "requirements.txt").read_text("utf-8")
    (root / TARGET / "requirements.txt").write_text(requirements.replace("../../", ""), "utf-8")
    copy(root, Path("constraints.txt"), TARGET / "constraints.txt")
    return 0


def list_code(root: Path) -> Iterator[Path]:
    """Yield the files of the code, relative to the root."""
    for folder in CODE:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root)
            is_left_out = any(part in LEFT_OUT or part.endswith("_env") for part in path.parts)
            if file.suffix in SUFFIXES and not is_left_out and APP not in path.parents:
                yield path


def copy(root: Path, source: Path, target: Path) -> None:
    """Copy a file without its mode: in Azure another user reads it."""
    (root / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / source, root / target)


if __name__ == "__main__":
    sys.exit(main())
