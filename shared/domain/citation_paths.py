"""Encodes file paths for use in citations: `[path#page=3]`."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

MAX_PATH_LENGTH = 1024
"""The maximum length of a citable path in characters, as in Blob storage."""

# Delimiters of a citation `[path#page=3]`, of its link, and of the line `path: text` in a prompt,
# including all line separators.
_RESERVED = re.compile(r"[\[\]#%?:\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
# The characters that break a citation, also in page names of foreign indexes.
_UNSAFE = re.compile(r"[\[\]\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENCODED = re.compile(r"%(?:5B|5D|23|25|3F|3A|5C|[01][0-9A-F]|7F)|%C2%[89][0-9A-F]|%E2%80%A[89]")


def encode_path(name: str) -> str:
    """Percent-encode `[]#%?:`, backslashes and control characters of a path."""
    return _RESERVED.sub(lambda match: quote(match[0], safe=""), name)


def escape_citation(page: str) -> str:
    """Percent-encode brackets and line separators of a page name from a foreign index."""
    return _UNSAFE.sub(lambda match: quote(match[0], safe=""), page)


def decode_path(sourcefile: str) -> str:
    """Decode what `encode_path` encoded."""
    return _ENCODED.sub(lambda match: unquote(match[0]), sourcefile)
