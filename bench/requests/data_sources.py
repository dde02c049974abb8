"""On Your Data's `data_sources`, which chat completions read."""

from __future__ import annotations

from bench.schemas import TEXT, TEXTS, sample
from shared.protocols.openai.data_sources import SearchScope

# What the service needs to accept them.
CONFIGS = (SearchScope(TEXTS["endpoint"], sample(TEXT), filters=True),)
