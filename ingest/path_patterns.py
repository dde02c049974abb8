"""Patterns of paths in `acl.yaml`: `*` matches within a folder, `**` across folders."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from itertools import permutations, product

MAX_DEEP_WILDCARDS = 4
"""The most `**` in a pattern: each one multiplies the time of `is_more_specific`."""

_WILDCARD = re.compile(r"(\*\*/|\*\*|\*)")
_REGEXES = {"**/": r"(?:.*/)?", "**": ".*", "*": "[^/]*"}
_OTHER = "\0"  # a character that no path has, nor a pattern that matches one
_UNWRITABLE = re.compile(r"[\\\ud800-\udfff]")  # characters that a rule cannot have


def path_matches(pattern: str, path: str) -> bool:
    return _compile(pattern).fullmatch(path) is not None


@cache
def is_more_specific(pattern: str, other: str) -> bool:
    """Whether `other` matches all paths that `pattern` matches, and more."""
    return _is_within(pattern, other) and not _is_within(other, pattern)


def settling_pattern(path: str, patterns: Collection[str]) -> str:
    """A pattern that is more specific than all of `patterns`, which match `path`.

    For `pub/**` and `**/a.md` it is `pub/**/a.md`; else the path itself.
    """
    pairs = permutations(patterns, 2)
    joined = (outer[:-2] + inner for outer, inner in pairs if outer.endswith("/**"))
    for pattern in joined:
        is_writable = pattern.count("**") <= MAX_DEEP_WILDCARDS and path_matches(pattern, path)
        if is_writable and all(is_more_specific(pattern, each) for each in patterns):
            return pattern
    return _UNWRITABLE.sub("*", path)


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
