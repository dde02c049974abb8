"""Imports the factories that CHAT_MODEL, RETRIEVER and TRACE_EXPORTER name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from shared.settings import SettingsError


def import_factory(setting: str, name: str, known: Iterable[str] = ()) -> Callable[..., Any]:
    """Import a factory. `known` are the setting's other values. Raises SettingsError."""
    module, _, factory = name.partition(":")
    try:
        imported: Callable[..., Any] = getattr(importlib.import_module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        names = ", ".join((*known, ""))
        choice = f"{names}or a" if names else "a"
        problem = f"{setting} must be {choice} package.module:factory that can be imported"
        raise SettingsError((problem,)) from error
    return imported
