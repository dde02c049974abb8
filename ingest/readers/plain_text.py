"""Reads text, Markdown, reStructuredText and JSON."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ingest.document import UNKNOWN_TYPE, Content, Page, UnreadableDocument, distinct_title
from ingest.readers.underlined_titles import markdown_headings, rst_headings

GENERATED = "It is generated or minified: its lines are too long for a text."
MAX_MEAN_LINE = 10_000  # characters of a text of unknown type

# UTF-32 before UTF-16, whose mark is a prefix of it.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_FIRST_HEADING = re.compile(r"^ {0,3}#[ \t]+(.+)$", re.MULTILINE)
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(.{0,60000}?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)


def bom_encoding(data: bytes) -> str | None:
    """The encoding of the byte order mark, or None."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if data.startswith(mark)), None)


def decode_text(data: bytes) -> str:
    """Decode by the byte order mark, else as UTF-8, else as Windows-1252."""
    if encoding := bom_encoding(data):
        return data.decode(encoding, "replace").removeprefix("\ufeff")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def is_text(head: bytes) -> bool:
    """Whether the beginning of a file is text: no NUL and at most 1 % control characters."""
    if bom_encoding(head):
        return True
    controls = len(head) - len(head.translate(None, bytes((*range(8), *range(14, 27), 127))))
    return b"\0" not in head and controls * 100 <= len(head)


def read_text(path: Path) -> Content:
    return Content((Page(decode_text(path.read_bytes())),))


def read_unknown_text(path: Path) -> Content:
    """Read a text of any name: in UTF-8, or in the encoding of its byte order mark.

    Raises UnreadableDocument for other data, and for generated text such as a search index.
    """
    data = path.read_bytes()
    try:
        text = data.decode(bom_encoding(data) or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UnreadableDocument(UNKNOWN_TYPE) from error
    if "\0" in text:
        raise UnreadableDocument(UNKNOWN_TYPE)
    if len(text) > MAX_MEAN_LINE * (text.count("\n") + 1):
        raise UnreadableDocument(GENERATED)
    return Content((Page(text),))


def read_rst(path: Path) -> Content:
    """Read reStructuredText; its underlined titles become headings of Markdown."""
    return Content((Page(rst_headings(decode_text(path.read_bytes())), markdown=True),))


def read_markdown(path: Path) -> Content:
    """Read Markdown; its front matter, between `---`, may name a category and a title."""
    text = decode_text(path.read_bytes()).replace("\r\n", "\n")
    match = _FRONT_MATTER.match(text)
    metadata = _parse_front_matter(match[1]) if match else None
    if match is None or metadata is None:
        return Content((Page(markdown_headings(text), markdown=True),))
    text = markdown_headings(text[match.end() :])
    first = _FIRST_HEADING.search(text)
    title = distinct_title(_text_value(metadata, "title"), first[1] if first else "")
    page = Page(text, markdown=True, title=title)
    return Content((page,), _text_value(metadata, "category") or None)


def _text_value(metadata: Mapping[object, object], key: str) -> str:
    value = metadata.get(key)
    return value.strip() if isinstance(value, str) else ""


def _parse_front_matter(text: str) -> dict[object, object] | None:
    """Parse the front matter; None where it is only text between two rules."""
    try:
        metadata = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return metadata if isinstance(metadata, dict) else None


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
        rows = [row for row in enumerate(text.split("\n"), 1) if row[1].strip()]
        if len(rows) < 2 or error.msg != "Extra data":
            raise _invalid(error.lineno) from error
    return [_load_line(number, line) for number, line in rows]


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
