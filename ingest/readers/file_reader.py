"""Reads a file into pages with the reader of its type.

To read another type of file, add its row in `FILE_TYPES` and its function in this folder. Text
without a row is plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.document import (
    MAX_FILE_BYTES,
    UNKNOWN_TYPE,
    Content,
    UnreadableDocument,
    non_empty_pages,
    too_large_message,
)
from ingest.readers import docx, html, image_files, pdf, plain_text, pptx, spreadsheets
from ingest.readers.office import detect_zip_type

_HEAD_BYTES = 65536
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_IMAGE_SIGNATURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")


@dataclass(frozen=True, slots=True)
class _FileType:
    """The reader of a file type, and the content that its bytes must have."""

    content: str
    read: Callable[[Path], Content]


def read_file(path: Path, max_bytes: int = MAX_FILE_BYTES) -> Content:
    """Read a file of at most `max_bytes` bytes into the pages that have text or images.

    Raises UnreadableDocument with the reason. A hostile file may use unlimited time and memory:
    see `ingest.sandbox`.
    """
    try:
        content = _read_checked(path, max_bytes)
    except (UnreadableDocument, MemoryError):
        raise
    except Exception as error:  # The libraries raise undocumented errors on damaged files.
        raise UnreadableDocument("It is damaged.") from error
    pages = non_empty_pages(content.pages)
    if not pages:
        raise UnreadableDocument(_no_text_message(content))
    return replace(content, pages=pages)


def _read_checked(path: Path, max_bytes: int) -> Content:
    file_type = FILE_TYPES.get(path.suffix.lower())
    head = _read_head(path, max_bytes)
    detected = _detect_content(path, head)
    if file_type is None and detected == "text":
        return plain_text.read_unknown_text(path)
    if file_type is None:
        raise UnreadableDocument(UNKNOWN_TYPE)
    if detected == "encrypted":
        raise UnreadableDocument("It is encrypted: it opens with a password only.")
    if detected != file_type.content:
        raise UnreadableDocument("Its content is not what its name says.")
    return file_type.read(path)


def _read_head(path: Path, max_bytes: int) -> bytes:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise UnreadableDocument(f"It cannot be opened: {error.strerror}.") from error
    if not head.strip():
        raise UnreadableDocument("It is empty.")
    if size > max_bytes:
        raise UnreadableDocument(too_large_message(max_bytes))
    return head


def _detect_content(path: Path, head: bytes) -> str:
    """Detect the content of a file from its bytes, not its name."""
    if head.lstrip().startswith(b"%PDF-"):
        return "pdf"
    if plain_text.is_text(head):
        return "text"
    if head.startswith(b"PK\x03\x04"):
        return detect_zip_type(path)
    if head.startswith(_OLD_OFFICE):
        return "encrypted" if _ENCRYPTED in path.read_bytes() else "old office"
    is_image = head.startswith(_IMAGE_SIGNATURES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
    return "image" if is_image else "pdf" if b"%PDF-" in head[:1024] else "unknown"


def _no_text_message(content: Content) -> str:
    if any(page.number for page in content.pages):
        return "It is scanned or drawn: its pages hold no text, and no image that can be shown."
    return "It holds no text."


FILE_TYPES: Mapping[str, _FileType] = {
    ".csv": _FileType("text", spreadsheets.read_csv),
    ".docx": _FileType("docx", docx.read_docx),
    ".htm": _FileType("text", html.read_html),
    ".html": _FileType("text", html.read_html),
    ".json": _FileType("text", plain_text.read_json),
    ".jsonl": _FileType("text", plain_text.read_json),
    ".markdown": _FileType("text", plain_text.read_markdown),
    ".md": _FileType("text", plain_text.read_markdown),
    ".ndjson": _FileType("text", plain_text.read_json),
    ".pdf": _FileType("pdf", pdf.read_pdf),
    ".pptx": _FileType("pptx", pptx.read_pptx),
    ".rst": _FileType("text", plain_text.read_rst),
    ".tsv": _FileType("text", spreadsheets.read_csv),
    ".txt": _FileType("text", plain_text.read_text),
    ".xhtml": _FileType("text", html.read_html),
    ".xlsx": _FileType("xlsx", spreadsheets.read_xlsx),
    **dict.fromkeys(
        (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"),
        _FileType("image", image_files.read_image),
    ),
}
