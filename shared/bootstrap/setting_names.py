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


def closest_setting(name: str, similarity: float) -> str | None:
    """Return the setting that an unknown name is at least so similar to; None for a known name."""
    if name in KNOWN_NAMES:
        return None
    return next(iter(get_close_matches(name.upper(), KNOWN_NAMES, 1, similarity)), None)


def describe_misspelt(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each name that is no setting, and close to one."""
    for name in names:
        closest = closest_setting(name, MIN_SIMILARITY)
        if closest and not _extends_known_name(name):
            yield f"{name} is not a setting of this app: did you mean {closest}?"


def _extends_known_name(name: str) -> bool:
    """Whether a name has a whole setting in it, as that of a provider's key may."""
    return any(f"_{known}_" in f"_{name}_" for known in KNOWN_NAMES)
