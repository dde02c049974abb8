"""The formats by their names as flavors of AOG v0.2."""

from __future__ import annotations

from collections.abc import Mapping

from shared.models.formats.aog import AOG
from shared.models.formats.base import ModelFormat
from shared.models.formats.ollama import OLLAMA
from shared.models.formats.openai import OPENAI

FLAVORS: Mapping[str, ModelFormat] = {each.name: each for each in (OPENAI, OLLAMA, AOG)}
