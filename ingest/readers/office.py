"""Checks that an Office file, a zip archive of XML, is safe to open, and detects its type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

from ingest.document import MEGABYTE, UnreadableDocument

MAX_UNPACKED_BYTES = 64 * MEGABYTE
"""The limit of the unpacked size of an Office file."""

# The folder in the archive that identifies each type.
_FOLDER_TYPES = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
_DOCTYPE = tuple("<!DOCTYPE".encode(encoding) for encoding in ("ascii", "utf-16-le", "utf-16-be"))


def detect_zip_type(path: Path) -> str:
    """`docx`, `pptx` or `xlsx`; `zip` for any other archive. Raises UnreadableDocument."""
    with _open_archive(path) as archive:
        names = archive.namelist()
    if "[Content_Types].xml" not in names:
        return "zip"
    types = (kind for part, kind in _FOLDER_TYPES.items() if any(n.startswith(part) for n in names))
    return next(types, "zip")


@contextmanager
def open_office_file(path: Path) -> Iterator[IO[bytes]]:
    """Open an Office file. Raises UnreadableDocument for a zip bomb or entities."""
    with _open_archive(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > MAX_UNPACKED_BYTES:
            raise UnreadableDocument(
                f"It unpacks to more than {MAX_UNPACKED_BYTES // MEGABYTE} MB."
            )
        if any(_has_doctype(archive, name) for name in archive.namelist()):
            raise UnreadableDocument(
                "It is damaged: it declares entities, which no Office file does."
            )
    with path.open("rb") as file:
        yield file


def _has_doctype(archive: ZipFile, name: str) -> bool:
    """Whether a part has a document type, where entities that expand to gigabytes can be."""
    if not name.lower().endswith((".xml", ".rels", ".vml")):
        return False
    data = archive.read(name)
    return any(mark in data for mark in _DOCTYPE)


@contextmanager
def _open_archive(path: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(path) as archive:
            yield archive
    except (BadZipFile, NotImplementedError, RuntimeError) as error:
        raise UnreadableDocument("It is damaged: its archive cannot be opened.") from error
