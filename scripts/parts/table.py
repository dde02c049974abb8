"""The table of parts in docs/customize.md: `python -m scripts.parts.table` writes it there."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path

from scripts.parts.catalog import Catalog
from scripts.parts.removal import Tree

PAGE = "docs/customize.md"
HEAD = "| part | what you get | needs |\n|---|---|---|\n"


def write_table(tree: Tree, catalog: Catalog, gone: Container[str] = ()) -> str:
    """The page with a row for each part that is not gone."""
    rows = [
        f"| `{name}` | {part.gives} | {', '.join(f'`{each}`' for each in part.needs)} |\n"
        for name, part in catalog.parts.items()
        if name not in gone and not part.stays
    ]
    table = HEAD + "".join(rows).replace("|  |", "| |")
    return re.sub(rf"{re.escape(HEAD)}(?:\|.*\n)*", lambda _: table, str(tree.get(PAGE, "")))


if __name__ == "__main__":
    from scripts.parts.plan import catalog_of
    from scripts.parts.project import read_tree

    ROOT = Path(__file__).parents[2]
    TREE = read_tree(ROOT)
    (ROOT / PAGE).write_text(write_table(TREE, catalog_of(TREE)), "utf-8")
