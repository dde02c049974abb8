#!/usr/bin/env python3
"""Prints the section of a version in CHANGELOG.md: `release_notes.py v0.1.0`.

Fails where the version is not the one of azure.yaml, or the changelog has no such section.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def release_notes(tag: str, changelog: str, azure_yaml: str) -> str:
    """Return the notes of a tag such as v0.1.0. Raises ValueError that names the mismatch."""
    version = tag.removeprefix("v")
    template = re.search(r"(?m)^  template: \S+@(\S+)$", azure_yaml)
    if template is None or template[1] != version:
        raise ValueError(f"azure.yaml names version {template and template[1]}, the tag {version}")
    pattern = rf"(?ms)^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)"
    section = re.search(pattern, changelog)
    if section is None or not section[1].strip():
        raise ValueError(f"CHANGELOG.md has no section [{version}]: rename [Unreleased]")
    return section[1].strip()


if __name__ == "__main__":
    files = [(ROOT / name).read_text("utf-8") for name in ("CHANGELOG.md", "azure.yaml")]
    try:
        print(release_notes(sys.argv[1], *files))
    except ValueError as error:
        sys.exit(str(error))
