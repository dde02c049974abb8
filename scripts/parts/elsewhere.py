"""Removes a part from all that is not Python, in the order in which one follows from the other."""

from __future__ import annotations

import re

from scripts.parts.catalog import CATALOG
from scripts.parts.comments import remove_from_comments
from scripts.parts.markdown import remove_from_pages
from scripts.parts.mentions import find_mentions
from scripts.parts.project_files import (
    edit,
    remove_from_json,
    remove_from_lists,
    remove_from_makefile,
    remove_from_pyproject,
    remove_from_requests,
    remove_from_requirements,
    remove_from_workbook,
    remove_from_yaml,
)
from scripts.parts.removal import Removal, Tree, text_files
from scripts.parts.table import PAGE, write_table

# The documents that are indexed, and what tests read.
NOT_PAGES = ("shared/data/", "evals/safety/documents/", "tests/")
# The ends of files, and what begins a comment in them.
MARKERS = {
    ("Makefile", ".funcignore", "requirements.txt", ".yaml", ".yml", ".toml"): "#",
    ("-dev.txt", "-eval.txt", "-ingest.txt", "-local.txt"): "#",
    (".bicep",): "//",
}


def without_deployed_settings(text: str, removal: Removal) -> str:
    """The row of the settings that `azd up` sets, without those that infra/ sets no more."""
    row = re.search(r"(?m)^\| set by `azd up` \|.*$", text)
    names = "|".join(sorted(removal.infra)) or "(?!)"
    new = re.sub(rf"`(?:{names})`, |, `(?:{names})`", "", row[0]) if row else ""
    return text.replace(row[0], new) if row else text


def remove_elsewhere(tree: Tree, removal: Removal) -> None:
    """Remove from settings, lists, infra/, comments and docs what the removal has taken away."""
    for remove in (
        remove_from_lists,
        remove_from_requirements,
        remove_from_pyproject,
        remove_from_makefile,
        remove_from_json,
        remove_from_yaml,
    ):
        remove(tree, removal)
    mentions = find_mentions(tree, removal)
    remove_from_requests(tree, removal, mentions)
    remove_from_workbook(tree, mentions)
    for endings, marker in MARKERS.items():
        for name, text in text_files(tree, *endings):
            if name != CATALOG:
                tree[name] = remove_from_comments(text, marker, mentions)
    edit(tree, "docs/configuration.md", lambda text: without_deployed_settings(text, removal))
    pages = [name for name, _ in text_files(tree, ".md") if not name.startswith(NOT_PAGES)]
    remove_from_pages(tree, pages, mentions)
    if PAGE in tree:  # last: the name of a part may be a word of another one
        tree[PAGE] = write_table(tree, removal.catalog, removal.gone)
