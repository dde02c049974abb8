"""The fields of a hit that a search returns: OpenSearch's `_source`, in all of its forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.chat.errors import BadRequest
from shared.http.json_encoding import Json

MOST_PATTERNS, LONGEST_PATTERN = 50, 100


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Which fields of a hit are shown: those that a pattern includes and none excludes."""

    shown: bool = True
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()

    def of(self, source: Json) -> Json:
        """The fields of a hit that are shown."""
        return {key: value for key, value in source.items() if self._shows(key)}

    def _shows(self, key: str) -> bool:
        included = not self.includes or any(fits(key, one) for one in self.includes)
        return included and not any(fits(key, one) for one in self.excludes)


def fits(name: str, pattern: str) -> bool:
    """Whether a name is what a pattern says; `*` stands for anything, nothing else is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        position = name.find(part, at, end)
        if position < 0:
            return False
        at = position + len(part)
    return at <= end


def parse(body: Json, query: Mapping[str, str]) -> SourceFilter:
    """The filter of the query parameters or the body. Raises BadRequest."""
    value: Any = query.get("_source", body.get("_source", True))
    if value in ("true", "false", True, False):
        shown, value = value in ("true", True), {}
    else:
        shown = True
    if isinstance(value, str):
        value = {"includes": value.split(",")}
    if isinstance(value, list):
        value = {"includes": value}
    if not isinstance(value, Mapping):
        raise BadRequest("_source: must be true, false, a name, a list of names or an object")
    kinds = [
        _patterns(query.get(f"_source_{kind}", value.get(kind, value.get(kind[:-1], []))))
        for kind in ("includes", "excludes")
    ]
    return SourceFilter(shown, *kinds)


def _patterns(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest("_source: includes and excludes must be lists of names")
    if len(names) > MOST_PATTERNS or any(len(name) > LONGEST_PATTERN for name in names):
        raise BadRequest(
            f"_source: {MOST_PATTERNS} names at most, of {LONGEST_PATTERN} characters at most"
        )
    return tuple(names)
