"""Fake servers of models, a module for each flavor: its paths, and `Server`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

FLAVORS: Mapping[str, Any] = {
    module.name: import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)
}
