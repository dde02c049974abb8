"""What is a file called in an index? Its path, without what means something in a citation."""

from __future__ import annotations

import re

# These four have a meaning in a citation `[path#page=3]` and in the link made of it.
_RESERVED = re.compile(r"[\[\]#%]")
_ENCODED = re.compile(r"%(5B|5D|23|25)")


def encoded(name: str) -> str:
    """The path `name` as passages have it: `[`, `]`, `#` and `%` are percent-encoded."""
    return _RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", name)


def decoded(sourcefile: str) -> str:
    """The path that `sourcefile` was made from."""
    return _ENCODED.sub(lambda found: chr(int(found[1], 16)), sourcefile)
