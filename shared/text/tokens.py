"""Estimates the number of tokens of a text, without a tokenizer."""

from __future__ import annotations

import re
from math import ceil

# Runs that tokenizers rarely join into one token: three digits, words split at capitals, runs of
# another script, punctuation, line breaks, runs of spaces.
_RUNS = re.compile(r"\d{1,3}|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+|[^\w\s]|_|\n|\s{2,}")

SLICE_LENGTH = 64 * 1024  # characters; a run across a boundary counts twice


def count_tokens(text: str) -> int:
    """Estimate the tokens of `text`; overestimates rather than underestimates.

    The factors 3 (bytes per token) and 1.35 (reserve) were fitted to o200k, the tokenizer of
    GPT-4o: no underestimate for English, German, Arabic, Chinese, Hindi, code, tables, JSON, ids,
    emoji and long base64. Plain English is overestimated about twofold; random letters, as in a
    key, can be underestimated by up to a third.
    """
    # In slices: the pattern holds the GIL, and megabytes at once would block other requests.
    slices = (text[start : start + SLICE_LENGTH] for start in range(0, len(text), SLICE_LENGTH))
    runs = sum(_RUNS.subn("", part)[1] for part in slices)  # the fastest way to count matches
    # Lone surrogates cannot be encoded strictly; they count as three bytes.
    size = len(text.encode("utf-8", "surrogatepass"))
    return ceil(1.35 * max(size / 3, runs))
