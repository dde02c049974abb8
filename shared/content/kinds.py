"""What does a browser get told about a file? Its type, and whether to show it or to save it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import quote

UNKNOWN = "application/octet-stream"
OFFICE = "application/vnd.openxmlformats-officedocument"

# By what the name ends in. Texts are taken for UTF-8.
KINDS: Mapping[str, str] = {
    ".pdf": "application/pdf",
    ".txt": "text/plain; charset=utf-8",
    ".log": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".markdown": "text/markdown; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".tsv": "text/tab-separated-values; charset=utf-8",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
    ".htm": "text/html; charset=utf-8",
    ".xhtml": "application/xhtml+xml",
    ".xml": "application/xml",
    ".docx": f"{OFFICE}.wordprocessingml.document",
    ".pptx": f"{OFFICE}.presentationml.presentation",
    ".xlsx": f"{OFFICE}.spreadsheetml.sheet",
}

# What a browser shows and never runs. All else is saved, and gets no rights if it is shown.
SHOWN = {
    *(".pdf", ".txt", ".log", ".md", ".markdown", ".csv", ".tsv", ".json", ".jsonl"),
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"),
}


def kind(name: str) -> str:
    """A file's media type, told by its name alone."""
    return KINDS.get(_end(name), UNKNOWN)


def handling(name: str) -> dict[str, str]:
    """The headers that tell a browser to show a file, or to save it and run nothing in it."""
    shown = _end(name) in SHOWN
    told = {"Content-Disposition": _disposition("inline" if shown else "attachment", name)}
    return told if shown else {**told, "Content-Security-Policy": "sandbox"}


def _end(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _disposition(how: str, name: str) -> str:
    """RFC 6266: the name in ASCII for old clients, and in UTF-8 for all others."""
    last = name.rpartition("/")[2]
    plain = re.sub(r'[^\x20-\x7e]|["\\%]', "_", last)
    return f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(last, safe='')}"
