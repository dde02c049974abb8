"""The settings of a command: the environment, and local.settings.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


class UsageError(Exception):
    """The command cannot run with these arguments or settings files; the message says why."""


def read_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Read local.settings.json as the app does: the environment has precedence."""
    path = ROOT / "local.settings.json"
    try:
        local = json.loads(path.read_text("utf-8-sig")) if path.exists() else {}
        values = local.get("Values") or {}
    except (ValueError, AttributeError):
        raise UsageError("local.settings.json is not valid JSON.") from None
    return {name: str(value) for name, value in values.items()} | dict(environment)
