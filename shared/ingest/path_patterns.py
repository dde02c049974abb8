"""Patterns of paths in `acl.yaml`: `*` matches within a folder, `**` across folders."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

MAX_DEEP_WILDCARDS = 4
"""The most `**` in a pattern: each one multiplies the time of `is_within`."""

_WILDCARD = re.compile(r"(\*\*/|\*\*|\*)")
_REGEXES = {"**/": r"(?:.*/)?", "**": ".*", "*": "[^/]*"}
_OTHER = "\0"  # a character that no path and no pattern has


def path_matches(pattern: str, path: str) -> bool:
    """Whether a path matches a pattern."""
    return _compile(pattern).fullmatch(path) is not None


@cache
def is_more_specific(pattern: str, other: str) -> bool:
    """Whether `other` matches all paths that `pattern` matches, and more."""
    return _is_within(pattern, other) and not _is_within(other, pattern)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    parts = (_REGEXES.get(part, re.escape(part)) for part in _WILDCARD.split(pattern))
    return re.compile("".join(parts), re.DOTALL)


def _is_within(inner: str, outer: str) -> bool:
    """Whether `outer` matches all paths that `inner` matches; decided by finitely many samples.

    Only a wildcard of `outer` matches `_OTHER`, and it matches any other text of a folder as well:
    so `_OTHER` stands for all that a `*` of `inner` matches. `**` is a `*` for each of any number
    of folders. More of them than `outer` has slashes can only be matched by a `**` of `outer`,
    which matches any number: so one more than that stands for all larger numbers.
    """
    depths = range(outer.count("/") + 2)
    samples = {
        "*": [_OTHER],
        "**": [_OTHER + depth * f"/{_OTHER}" for depth in depths],
        "**/": [depth * f"{_OTHER}/" for depth in depths],
    }
    choices = (samples.get(part, [part]) for part in _WILDCARD.split(inner))
    return all(path_matches(outer, "".join(parts)) for parts in product(*choices))
