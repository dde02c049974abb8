"""What does a browser get told about a file? Its type, and whether to show it or to save it."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import quote

DEFAULT_MEDIA_TYPE = "application/octet-stream"
OPEN_XML = "application/vnd.openxmlformats-officedocument"

# By what the name ends in.
MEDIA_TYPES: Mapping[str, str] = {
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".ndjson": "application/jsonl",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".svg": "image/svg+xml",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".xml": "application/xml",
    ".docx": f"{OPEN_XML}.wordprocessingml.document",
    ".pptx": f"{OPEN_XML}.presentationml.presentation",
    ".xlsx": f"{OPEN_XML}.spreadsheetml.sheet",
}

# What a browser shows and never runs. All else is saved, and gets no rights if it is shown.
INLINE_SUFFIXES = {
    *(".pdf", ".txt", ".log", ".md", ".markdown", ".csv", ".tsv", ".json", ".jsonl", ".ndjson"),
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"),
}


def guess_media_type(name: str) -> str:
    """A file's media type, told by its name alone."""
    return MEDIA_TYPES.get(_suffix(name), DEFAULT_MEDIA_TYPE)


def add_charset(media_type: str, head: bytes) -> str:
    """The type of a file that begins with `head`, and that its text is UTF-8 where it is.

    What else a text may be written in, its own marks or the browser must tell.
    """
    if not media_type.startswith("text/"):
        return media_type
    try:
        getincrementaldecoder("utf-8")().decode(head)  # The last character may be cut.
    except UnicodeDecodeError:
        return media_type
    return f"{media_type}; charset=utf-8"


def disposition_headers(name: str) -> dict[str, str]:
    """The headers that tell a browser to show a file, or to save it and run nothing in it."""
    shown = _suffix(name) in INLINE_SUFFIXES
    told = {"Content-Disposition": _disposition("inline" if shown else "attachment", name)}
    return told if shown else {**told, "Content-Security-Policy": "sandbox"}


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _disposition(how: str, name: str) -> str:
    """RFC 6266: the name in ASCII for old clients, and in UTF-8 for all others."""
    last = name.rpartition("/")[2]
    plain = re.sub(r'[^\x20-\x7e]|["\\%]', "_", last)
    return f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"
