"""Reads JSON and JSON Lines as text.

Each value is on a line with its path, `staff[2].name: Anna`, so that splitting keeps both; records
are separated by blank lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.ingest.document import Content, Page, UnreadableDocument
from shared.ingest.readers.plain_text import decode_text


class _Object(tuple[tuple[str, Any], ...]):
    """The pairs of an object, with both values of a duplicate key."""

    __slots__ = ()


def read_json(path: Path) -> Content:
    """Read a file of one JSON value, or of one per line."""
    text = decode_text(path.read_bytes())
    try:
        content = "\n\n".join(_paragraphs(_load(text)))
    except RecursionError as error:
        raise UnreadableDocument("It is JSON that is nested too deeply.") from error
    return Content((Page(content),))


def _load(text: str) -> Any:
    try:
        return _parse(text)
    except json.JSONDecodeError as error:
        rows = [line for line in text.splitlines() if line.strip()]
        if len(rows) < 2 or error.msg != "Extra data":
            raise _invalid(error.lineno) from error
    return [
        _load_line(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()
    ]


def _load_line(number: int, line: str) -> Any:
    try:
        return _parse(line)
    except json.JSONDecodeError as error:
        raise _invalid(number) from error


def _invalid(line: int) -> UnreadableDocument:
    return UnreadableDocument(f"It is not valid JSON (line {line}).")


def _parse(text: str) -> Any:
    # Numbers stay as written: a search for 1.10 must find it.
    return json.loads(text, object_pairs_hook=_Object, parse_int=str, parse_float=str)


def _paragraphs(value: Any) -> Iterator[str]:
    """Yield a paragraph for each item of a list, or each member of a single object."""
    rows = value if isinstance(value, list) else [value]
    for row in rows:
        members = list(row) if isinstance(row, _Object) and row is value else [("", row)]
        yield from ("\n".join(_lines(key, member)) for key, member in members)


def _lines(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, _Object) and value:
        for key, member in value:
            yield from _lines(f"{path}.{key}" if path else key, member)
    elif isinstance(value, list) and any(isinstance(part, (_Object, list)) for part in value):
        for number, member in enumerate(value):
            yield from _lines(f"{path}[{number}]", member)
    else:
        yield f"{path}: {_format_value(value)}" if path else _format_value(value)


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_format_value, value))
    return json.dumps(value) if value is None or isinstance(value, bool) else ""
