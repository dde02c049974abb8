"""Lists and removes parts: `python -m scripts.parts list | remove PART ... | keep PART ...`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.parts.catalog import CATALOG, PartsError
from scripts.parts.plan import catalog_of, is_on, plan
from scripts.parts.project import check_clean, read_tree, write_tree
from scripts.parts.removal import Tree, text_files

ROOT = Path(__file__).parents[2]


def print_parts(tree: Tree) -> None:
    """Print each part: its name, its lines of code, whether it is there, what it gives."""
    catalog = catalog_of(tree)
    for name, part in catalog.parts.items():
        files = [text for path, text in text_files(tree, ".py") if part.owns(path)]
        lines = sum(text.count("\n") for text in files)
        state = "on" if is_on(tree, catalog, name) else "gone"
        print(f"{name:18} {state:5} {lines:6}  {part.gives}")


def with_keep(tree: Tree, names: Sequence[str]) -> None:
    """Write the line `keep = [...]`, by which `make keep` can be repeated."""
    lines = [line for line in str(tree[CATALOG]).splitlines() if not line.startswith("keep = ")]
    quoted = ", ".join(f'"{name}"' for name in names)
    tree[CATALOG] = "\n".join([f"keep = [{quoted}]", *lines]) + "\n"


def write_functions() -> None:
    """Write the list of functions: where two protocols have a route, another one answers now."""
    path = ROOT / "tests" / "template" / "functions.txt"
    if path.exists():
        command = (sys.executable, "-m", "tests.template.test_functions")
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        path.write_text(done.stdout, "utf-8")


def run(options: argparse.Namespace) -> None:
    """Remove what the options say, and test what is left. Raises PartsError."""
    before = read_tree(ROOT)
    tree = dict(before)
    catalog = catalog_of(tree)
    names = options.parts or (options.command == "keep" and catalog.keep)
    if not names:
        raise PartsError('name the parts, as in: make remove PARTS="aog mcp"')
    if not options.dry:
        check_clean(ROOT)
    removed = catalog.all_but(names) if options.command == "keep" else names
    removal = plan(tree, removed)
    if options.command == "keep":
        with_keep(tree, names)
    print(f"removing {', '.join(removal.names) or 'nothing'}")
    changed = [name for name in tree if tree[name] != before.get(name)]
    print(f"{len(removal.paths)} files deleted, {len(changed)} changed")
    if options.dry:
        print("\n".join(f"delete {name}" for name in sorted(removal.paths)))
        print("\n".join(f"change {name}" for name in sorted(changed)))
        return
    write_tree(ROOT, before, tree)
    write_functions()
    if not options.no_check and subprocess.run(("make", "check", "test"), cwd=ROOT).returncode:
        raise PartsError("what is left fails its checks or tests: see above; `git diff` shows all")


def main() -> int:
    """Run what the command line names. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.parts", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="print the parts, and which are there")
    for name, text in (("remove", "remove parts"), ("keep", "remove all other parts")):
        command = commands.add_parser(name, help=text)
        command.add_argument("parts", nargs="*")
        command.add_argument("--dry", action="store_true", help="only print what would change")
        command.add_argument("--no-check", action="store_true", help="do not run the tests")
    options = parser.parse_args()
    try:
        print_parts(read_tree(ROOT)) if options.command == "list" else run(options)
    except PartsError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
