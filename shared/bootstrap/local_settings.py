"""Reads local.settings.json, and finds misspelt names of settings in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from shared.settings import SHARED_FOLDER, Settings

LOCAL_SETTINGS = SHARED_FOLDER.parent / "local.settings.json"
KNOWN_NAMES = frozenset(map(str.upper, Settings.model_fields))
# Similarity from which a name is taken for a misspelt one: OPENAI_MODEL has 0.83 with
# OPENAI_CHAT_MODEL, and AZURE_TENANT_ID, which a library reads, 0.80 with AZURE_CLIENT_ID.
MIN_SIMILARITY = 0.82


class UsageError(Exception):
    """The command cannot run with these arguments or settings files; the message says why."""


def read_local_settings(path: Path = LOCAL_SETTINGS) -> dict[str, Any]:
    """Read a settings file, with at least an empty `Values`. Raises UsageError, OSError."""
    settings = read_json(path)
    if settings.get("IsEncrypted"):
        raise UsageError(f"{path.name} is encrypted: `func settings decrypt` decrypts it.")
    settings["Values"] = settings.get("Values") or {}
    if not isinstance(settings["Values"], dict):
        raise UsageError(f"Values in {path.name} is not a JSON object.")
    return settings


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty without a file. Raises UsageError, OSError."""
    try:
        value = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{path.name} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path.name} is not a JSON object.")
    return value


def read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Read local.settings.json as the app does: `environment` has precedence.

    Raises UsageError.
    """
    values = read_local_settings()["Values"]
    return {name: str(value) for name, value in values.items()} | dict(environment)


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
