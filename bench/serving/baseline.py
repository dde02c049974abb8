"""What the baselines share: where the services are, their key, and the prompt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

ENDPOINT = os.environ.get("BENCH_ENDPOINT", "")
KEY = os.environ.get("BENCH_KEY", "")
IS_HYBRID = os.environ.get("BENCH_RETRIEVAL") == "hybrid"
FIELDS = ["id", "content", "sourcepage", "sourcefile"]
TOP = 3
INSTRUCTIONS = "Answer from these sources only, and cite them.\n\n"
REWRITE = "Write a search query for the last question of this conversation."

Messages = list[dict[str, Any]]


def rewrite_prompt(messages: Messages) -> Messages:
    """The prompt for a search query of its own."""
    return [{"role": "system", "content": REWRITE}, *messages]


def answer_prompt(messages: Messages, passages: Sequence[Any]) -> Messages:
    """The prompt for the answer, with the passages."""
    sources = "\n\n".join(f"[{each['sourcepage']}] {each['content']}" for each in passages)
    return [{"role": "system", "content": INSTRUCTIONS + sources}, *messages]
