"""What does a file hold, page by page?

To read another type of file, add its row in `KINDS`, and its function in `kinds/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shared.ingest.document import LARGEST, Content, UnreadableDocument, filled, too_large
from shared.ingest.readers import docx, html, image_files, json, pdf, plain_text, pptx, spreadsheets
from shared.ingest.readers.office import kind_of_zip

_HEAD = 65536
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_PICTURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a type of file is read, and what its bytes look like."""

    content: str
    reader: Callable[[Path], Content]


def read(path: Path, largest: int = LARGEST) -> Content:
    """Read a file of at most `largest` bytes into its pages that hold text or pictures.

    Raises Unreadable, with the reason. A hostile file may take any time and memory: see
    `shared.ingest.sandbox.process`.
    """
    try:
        content = _read(path, largest)
    except (UnreadableDocument, MemoryError):
        raise
    except Exception as error:  # Eight libraries stumble over damage in more ways than they name.
        raise UnreadableDocument("It is damaged.") from error
    pages = filled(content.pages)
    if not pages:
        raise UnreadableDocument(_nothing(content))
    return replace(content, pages=pages)


def _read(path: Path, largest: int) -> Content:
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise UnreadableDocument("There is no reader for this type of file.")
    head = _head(path, largest)
    found = _content(path, head)
    if found == "encrypted":
        raise UnreadableDocument("It is encrypted: it opens with a password only.")
    if found != kind.content:
        raise UnreadableDocument("Its content is not what its name says.")
    return kind.reader(path)


def _head(path: Path, largest: int) -> bytes:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise UnreadableDocument(f"It cannot be opened: {error.strerror}.") from error
    if not head.strip():
        raise UnreadableDocument("It is empty.")
    if size > largest:
        raise UnreadableDocument(too_large(largest))
    return head


def _content(path: Path, head: bytes) -> str:
    """What the bytes of a file are, whatever it is called."""
    if head.lstrip().startswith(b"%PDF-"):
        return "pdf"
    if plain_text.is_text(head):
        return "text"
    if head.startswith(b"PK\x03\x04"):
        return kind_of_zip(path)
    if head.startswith(_OLD_OFFICE):
        return "encrypted" if _ENCRYPTED in path.read_bytes() else "old office"
    picture = head.startswith(_PICTURES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
    return "picture" if picture else "pdf" if b"%PDF-" in head[:1024] else "unknown"


def _nothing(content: Content) -> str:
    if any(page.number for page in content.pages):
        return "It is scanned or drawn: its pages hold no text, and no picture that can be shown."
    return "It holds no text."


KINDS: Mapping[str, _Kind] = {
    ".csv": _Kind("text", spreadsheets.separated),
    ".docx": _Kind("docx", docx.word),
    ".htm": _Kind("text", html.page),
    ".html": _Kind("text", html.page),
    ".json": _Kind("text", json.records),
    ".jsonl": _Kind("text", json.records),
    ".markdown": _Kind("text", plain_text.markdown),
    ".md": _Kind("text", plain_text.markdown),
    ".ndjson": _Kind("text", json.records),
    ".pdf": _Kind("pdf", pdf.pdf),
    ".pptx": _Kind("pptx", pptx.slides),
    ".tsv": _Kind("text", spreadsheets.separated),
    ".txt": _Kind("text", plain_text.plain),
    ".xlsx": _Kind("xlsx", spreadsheets.workbook),
    **dict.fromkeys(
        (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"),
        _Kind("picture", image_files.picture_file),
    ),
}
