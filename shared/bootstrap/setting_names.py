"""Finds misspelt names of settings in local.settings.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from shared.settings import Settings

KNOWN_NAMES = frozenset(str(field.alias) for field in Settings.model_fields.values())
# Similarity from which a name is taken for a misspelt one: OPENAI_MODEL has 0.83 with
# OPENAI_CHAT_MODEL, and AZURE_TENANT_ID, which a library reads, 0.80 with AZURE_CLIENT_ID.
MIN_SIMILARITY = 0.82


def read_names(path: Path) -> list[str]:
    """Return the names of the settings in a file; none if it is missing or invalid."""
    try:
        return list(json.loads(path.read_text("utf-8-sig"))["Values"])
    except (OSError, ValueError, LookupError, TypeError):
        return []


def describe_misspelt(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each name that is no setting, and close to one."""
    for name in names:
        matches = get_close_matches(name.upper(), KNOWN_NAMES, 1, MIN_SIMILARITY)
        if matches and name not in KNOWN_NAMES and not _extends_known_name(name):
            yield f"{name} is not a setting of this app: did you mean {matches[0]}?"


def _extends_known_name(name: str) -> bool:
    """Whether a name has a whole setting in it, as that of a provider's key may."""
    return any(f"_{known}_" in f"_{name}_" for known in KNOWN_NAMES)
