"""What is a file called in an index? Its path, without what means something in a citation."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

MAX_PATH_LENGTH = 1024
"""The most characters of a path that can be cited, as in Blob storage."""

# What has a meaning in a citation `[path#page=3]`, in the link made of it, or in the line
# `path: text` that a model is given: also whatever could end that line.
_RESERVED = re.compile(r"[\[\]#%?:\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
# What would break a citation in any case, whatever else a name of another's may hold.
_UNSAFE = re.compile(r"[\[\]\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENCODED = re.compile(r"%(?:5B|5D|23|25|3F|3A|5C|[01][0-9A-F]|7F)|%C2%[89][0-9A-F]|%E2%80%A[89]")


def encode_path(name: str) -> str:
    """The path `name` as passages have it: `[]#%?:`, backslashes, control characters as `%5B`."""
    return _RESERVED.sub(lambda found: quote(found[0], safe=""), name)


def escape_citation(page: str) -> str:
    """A page as others name it, for a citation: no bracket, no end of a line."""
    return _UNSAFE.sub(lambda found: quote(found[0], safe=""), page)


def decode_path(sourcefile: str) -> str:
    """The path that `sourcefile` was made from."""
    return _ENCODED.sub(lambda found: unquote(found[0]), sourcefile)
