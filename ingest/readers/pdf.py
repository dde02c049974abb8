"""Reads a PDF: each page's text, with a line per heading and paragraph, and its images."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from pypdf import PageObject, PdfReader
from pypdf.errors import FileNotDecryptedError, LimitReachedError
from pypdf.generic import DictionaryObject, NullObject, StreamObject

from ingest.document import Content, Page, UnreadableDocument
from ingest.readers.image_files import ImageCollector, is_useful_size

_MAX_DEPTH = 5  # forms within forms


def extract_images(page: PageObject, names: set[str], collector: ImageCollector) -> Iterator[bytes]:
    """Yield the images that a page draws by one of `names` and that the collector accepts."""
    if not names:
        return
    for name, stream in _image_streams(page, names, _MAX_DEPTH):
        if collector.is_full:
            return
        # An object that many pages draw is decoded once.
        if collector.is_new(repr(stream.indirect_reference or name).encode()):
            yield from _decode_image(stream, collector)


def _image_streams(
    owner: DictionaryObject, names: set[str], depth: int
) -> Iterator[tuple[str, StreamObject]]:
    """Yield the images of useful size on a page, or in a form, and in its forms."""
    objects = _dictionary(_dictionary(owner, "/Resources"), "/XObject")
    for name in objects:
        stream = objects[name]
        if name not in names or not isinstance(stream, StreamObject):
            continue
        if stream.get("/Subtype") == "/Form" and depth:
            yield from _image_streams(stream, names, depth - 1)
        elif stream.get("/Subtype") == "/Image" and is_useful_size(_size(stream)):
            yield name, stream


def _dictionary(owner: DictionaryObject, key: str) -> DictionaryObject:
    """The dictionary under a key; empty where there is none."""
    value = owner.get(key, NullObject()).get_object()
    return value if isinstance(value, DictionaryObject) else DictionaryObject()


def _size(stream: StreamObject) -> tuple[int, int]:
    sides = (stream.get("/Width"), stream.get("/Height"))
    width, height = (side if isinstance(side, int) else 0 for side in sides)
    return width, height


def _decode_image(stream: StreamObject, collector: ImageCollector) -> tuple[bytes, ...]:
    try:
        with warnings.catch_warnings(action="ignore"):
            image = stream.decode_as_image()
            return tuple(collector.collect(image)) if isinstance(image, Image.Image) else ()
    except Exception:  # A damaged image must not prevent reading the page's text.
        return ()


_FILE_TITLE = re.compile(
    r"^(?:\W*|microsoft .*|untitled.*|(?:document|presentation|slide) ?\d+)$|\.\w{2,5}$|[\\/]",
    re.IGNORECASE,
)
_HEADER_CHARACTERS = 200  # of a page, where its header may repeat the title
# A line further below the last one than this many times its own height begins a paragraph.
_PARAGRAPH_GAP = 1.6
# The dots between a title and its page in a table of contents.
_LEADER = re.compile(r"(?:\.\s*){5,}")
_HYPHEN = re.compile(r"\w-$")


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    size: float
    y: float


def read_pdf(path: Path) -> Content:
    """Read the pages of a PDF; permission flags are ignored where it opens without a password."""
    collector = ImageCollector()
    try:
        reader = PdfReader(path)
        title, pages = _title(reader), enumerate(reader.pages, 1)
        return Content(tuple(_read_page(number, page, title, collector) for number, page in pages))
    except FileNotDecryptedError as error:
        raise UnreadableDocument("It is encrypted: it opens with a password only.") from error
    except LimitReachedError as error:
        raise UnreadableDocument("It unpacks to more than any page needs.") from error


def _title(reader: PdfReader) -> str:
    """The title in the document's properties, unless a program made it from a file's name."""
    try:
        title = reader.metadata.title if reader.metadata else None
    except Exception:  # Damaged properties must not prevent reading the text.
        return ""
    return "" if title is None or _FILE_TITLE.search(title.strip()) else title.strip()


def _read_page(number: int, page: PageObject, title: str, collector: ImageCollector) -> Page:
    names: set[str] = set()
    text = page_text(page, names)
    has_title = title.casefold() in text[: 2 * len(title) + _HEADER_CHARACTERS].casefold()
    images = tuple(extract_images(page, names, collector))
    return Page(text, number, images=images, title="" if has_title else title)


def page_text(page: PageObject, names: set[str]) -> str:
    """The text of a PDF page: a line for each heading and each paragraph.

    The names of the XObjects that the page draws are added to `names`.
    """
    text, last = "", None
    for line in _lines(page, names):
        text += _separator(last, line) + line.text
        last = line
    return text


def _separator(last: _Line | None, line: _Line) -> str:
    """The separator of two lines: none or a space within a paragraph."""
    if last is None:
        return ""
    if line.size < last.size:  # A heading is not separated from its text when the page is split.
        return "\n"
    if line.size > last.size or last.y - line.y > _PARAGRAPH_GAP * line.size:
        return "\n\n"
    return "" if _HYPHEN.search(last.text[-2:]) else " "


def _lines(page: PageObject, names: set[str]) -> tuple[_Line, ...]:
    pieces: list[_Line] = []

    def visit(
        text: str, matrix: Sequence[float], within: Sequence[float], font: object, size: float
    ) -> None:
        # pypdf's two matrices: the text matrix within the transformation matrix of its block.
        y = within[4] * matrix[1] + within[5] * matrix[3] + matrix[5]
        scale = abs(within[3] * matrix[3]) or 1.0
        pieces.append(_Line(text, round(size * scale, 1), y))

    def collect_name(operator: bytes, operands: Sequence[object], *_: object) -> None:
        if operator == b"Do" and operands:
            names.add(str(operands[0]))

    page.extract_text(visitor_text=visit, visitor_operand_before=collect_name)
    return tuple(_join_lines(pieces))


def _join_lines(pieces: Iterable[_Line]) -> Iterable[_Line]:
    """Join pieces to lines; the first non-blank piece determines the size and position."""
    text, first = "", None
    for piece in pieces:
        head, *rest = piece.text.split("\n")
        text += head
        first = first or (piece if head.strip() else None)
        for part in rest:
            if first and text.strip():
                yield _Line(_collapse_spaces(text), first.size, first.y)
            text, first = part, piece if part.strip() else None
    if first and text.strip():
        yield _Line(_collapse_spaces(text), first.size, first.y)


def _collapse_spaces(text: str) -> str:
    return " ".join(_LEADER.sub(" ... ", text).split())
