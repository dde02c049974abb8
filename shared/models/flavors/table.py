"""The flavors by the names that AOG v0.2 gives them."""

from __future__ import annotations

from collections.abc import Mapping

from shared.models.flavors import Flavor
from shared.models.flavors.aog import AOG
from shared.models.flavors.ollama import OLLAMA
from shared.models.flavors.openai import OPENAI

FLAVORS: Mapping[str, Flavor] = {each.name: each for each in (OPENAI, OLLAMA, AOG)}
