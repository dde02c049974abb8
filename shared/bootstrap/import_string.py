"""What does a setting mean that reads `package.module:factory`? The function of that name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from shared.settings import SettingsError


def import_factory(setting: str, name: str, known: Iterable[str]) -> Callable[..., Any]:
    """The factory; `known` are the names that need no import. Raises SettingsError."""
    module, _, factory = name.partition(":")
    try:
        made: Callable[..., Any] = getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        names = ", ".join((*known, ""))
        choice = f"{names}or a" if names else "a"
        problem = f"{setting} must be {choice} package.module:factory that can be imported"
        raise SettingsError((problem,)) from error
    return made
