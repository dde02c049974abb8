"""Gives a fork its own name: `python -m scripts.rename "Contoso help desk"`.

The README's heading, the page's title in each language, the dev container, azd's project and the
MCP server get it. The names of Azure resources follow from azd's environment. What tells Azure that
a resource is of this template stays: `metadata.template` of azure.yaml, and the tags in infra/.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 60  # characters of a name
# By a glob of files: what comes before the name. A slug is the name in lower case with hyphens.
TITLES = {
    "README.md": r"\A# ",
    ".devcontainer/devcontainer.json": r'\A\{\s+"name": "',
    "shared/protocols/page/static/languages/*.json": r'"title": "',
}
SLUGS = {
    "azure.yaml": r"^name: ",
    "shared/protocols/mcp/*.py": r'^SERVER = \{"name": "',
    "tests/support/golden/**/*.jsonl": r'serverInfo": \{"name": "',
}


class InvalidName(ValueError):
    """A name that cannot stand in each of the files; the message is for a person."""


def make_slug(name: str) -> str:
    """Return the name in lower case with hyphens. Raises InvalidName."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if len(name) > LONGEST or not re.fullmatch(r"[\w .,()&+-]+", name) or not slug:
        raise InvalidName(
            f"A name has at most {LONGEST} letters, digits, spaces and . , ( ) & + -, and some of "
            f"a to z or 0 to 9: {name!r}"
        )
    return slug


def rename(root: Path, name: str) -> Iterator[str]:
    """Write the name into the files of a project; yield those changed. Raises InvalidName."""
    slug = make_slug(name)
    for places, value in ((TITLES, name), (SLUGS, slug)):
        for glob, before in places.items():
            for path in sorted(root.glob(glob)):
                text = path.read_text("utf-8")
                changed = re.sub(rf'(?m)({before})[^"\n]+', rf"\g<1>{value}", text)
                if changed != text:
                    path.write_text(changed, "utf-8", newline="\n")
                    yield path.relative_to(root).as_posix()


def main() -> int:
    """Rename the project; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help='such as "Contoso help desk"')
    try:
        for path in rename(ROOT, parser.parse_args().name):
            print(path)
    except InvalidName as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
