"""Text and Markdown: which characters are the bytes of a file, and what does it say of itself?"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import yaml

from shared.ingest.document import Content, Page

# The longer ones first: UTF-32's begins with UTF-16's.
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
    """The encoding that a byte order mark names."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if data.startswith(mark)), None)


def decode_text(data: bytes) -> str:
    """The text of a file: by its byte order mark, else UTF-8, else as Western Windows wrote it."""
    if encoding := bom_encoding(data):
        return data.decode(encoding, "replace").removeprefix("\ufeff")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def is_text(data: bytes) -> bool:
    """Whether the beginning of a file is text: next to no control characters, no NUL."""
    if bom_encoding(data):
        return True
    head = data[:_HEAD_BYTES]
    controls = len(head) - len(head.translate(None, bytes((*range(8), *range(14, 27), 127))))
    return b"\0" not in head and controls * 100 <= len(head)


def read_text(path: Path) -> Content:
    """A text without any form."""
    return Content((Page(decode_text(path.read_bytes())),))


def read_markdown(path: Path) -> Content:
    """A text with headings and tables; what stands before it between `---` is about the file."""
    text = decode_text(path.read_bytes()).replace("\r\n", "\n")
    found = _FRONT_MATTER.match(text)
    about = _parse_front_matter(found[1]) if found else None
    if found is None or about is None:
        return Content((Page(text, markdown=True),))
    category = about.get("category")
    named = category.strip() if isinstance(category, str) else ""
    return Content((Page(text[found.end() :], markdown=True),), named or None)


def _parse_front_matter(front: str) -> dict[object, object] | None:
    """The front matter, or None where it is only text between two rules."""
    try:
        about = yaml.safe_load(front)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return about if isinstance(about, dict) else None
