"""The tokenizer of OpenAI's models, which checks the app's own estimate."""

from __future__ import annotations

import sys
from typing import Any

import pytest


def load_tokenizer() -> Any:
    """Load the encoding. Skips a test on a Python for which rs_bpe has no wheel."""
    if sys.version_info >= (3, 14):
        pytest.skip("rs_bpe has no wheel for Python 3.14")
    from rs_bpe.bpe import openai

    return openai.o200k_base()
