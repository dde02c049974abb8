"""Reads text and Markdown: detects the encoding and parses the front matter."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import yaml

from shared.ingest.document import Content, Page

# UTF-32 before UTF-16, whose mark is a prefix of it.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(.{0,60000}?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_HEAD_BYTES = 65536


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


def is_text(data: bytes) -> bool:
    """Whether the beginning of a file is text: no NUL and at most 1 % control characters."""
    if bom_encoding(data):
        return True
    head = data[:_HEAD_BYTES]
    controls = len(head) - len(head.translate(None, bytes((*range(8), *range(14, 27), 127))))
    return b"\0" not in head and controls * 100 <= len(head)


def read_text(path: Path) -> Content:
    """Read plain text."""
    return Content((Page(decode_text(path.read_bytes())),))


def read_markdown(path: Path) -> Content:
    """Read Markdown; its front matter, between `---`, may name a category."""
    text = decode_text(path.read_bytes()).replace("\r\n", "\n")
    match = _FRONT_MATTER.match(text)
    metadata = _parse_front_matter(match[1]) if match else None
    if match is None or metadata is None:
        return Content((Page(text, markdown=True),))
    value = metadata.get("category")
    category = value.strip() if isinstance(value, str) else ""
    return Content((Page(text[match.end() :], markdown=True),), category or None)


def _parse_front_matter(text: str) -> dict[object, object] | None:
    """Parse the front matter; None where it is only text between two rules."""
    try:
        metadata = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return metadata if isinstance(metadata, dict) else None
