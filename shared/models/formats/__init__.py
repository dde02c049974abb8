"""The formats by their names as flavors: those of AOG v0.2, and `responses`."""

from __future__ import annotations

from collections.abc import Mapping

from shared.models.formats.aog import AOG
from shared.models.formats.base import ModelFormat
from shared.models.formats.ollama import OLLAMA
from shared.models.formats.openai import OPENAI
from shared.models.formats.responses import RESPONSES

FORMATS = (OPENAI, RESPONSES, OLLAMA, AOG)
FLAVORS: Mapping[str, ModelFormat] = {each.name: each for each in FORMATS}
