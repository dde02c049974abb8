"""Golden files in a folder for each protocol, which may have the `CONFIGS` that they need."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

CONFIGS = tuple(
    config
    for protocol in iter_modules(__path__)
    for config in import_module(f"{__name__}.{protocol.name}").CONFIGS
)
