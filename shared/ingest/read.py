"""What text does a file hold, page by page?

To read another type of file, add a function and its row in `READERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypdf import PageObject, PdfReader
from pypdf.errors import DependencyError, PyPdfError

# A line further below the last one than this many times its own height begins a paragraph.
_PARAGRAPH_GAP = 1.6
_HYPHEN = re.compile(r"\w-$")

# A damaged PDF makes pypdf stumble in more ways than its own errors name.
_DAMAGE = (
    PyPdfError,
    DependencyError,
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one page; `number` counts from 1 and is None where a file has no pages."""

    text: str
    number: int | None = None
    markdown: bool = False


class Unreadable(Exception):
    """A file gave no text; the message is a sentence that names the file."""


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    size: float
    y: float


def read(path: Path) -> tuple[Page, ...]:
    """Read a file into its pages that hold text.

    Raises `Unreadable` for a type that has no reader, a damaged file and one without any text.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise Unreadable(f"{path} cannot be read: there is no reader for this type of file.")
    pages = tuple(page for page in reader(path) if page.text.strip())
    if not pages:
        raise Unreadable(f"{path} cannot be read: it holds no text.")
    return pages


def _plain(path: Path) -> tuple[Page, ...]:
    return (Page(_decoded(path)),)


def _markdown(path: Path) -> tuple[Page, ...]:
    return (Page(_decoded(path), markdown=True),)


def _decoded(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path} cannot be read: it is not UTF-8 text.") from error
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from error


def _pdf(path: Path) -> tuple[Page, ...]:
    try:
        pages = PdfReader(path).pages
        return tuple(Page(page_text(page), number) for number, page in enumerate(pages, 1))
    except _DAMAGE as error:
        raise Unreadable(f"{path} cannot be read: it is damaged or encrypted.") from error


def page_text(page: PageObject) -> str:
    """The text of a PDF page: a line for each heading and each paragraph."""
    text, last = "", None
    for line in _lines(page):
        text += _joint(text, last, line) + line.text
        last = line
    return text


def _joint(text: str, last: _Line | None, line: _Line) -> str:
    """What stands between two lines. Within a paragraph a sentence is not cut by a line's end."""
    if last is None:
        return ""
    if line.size < last.size:  # A heading stays with what follows it when the page is split.
        return "\n"
    if line.size > last.size or last.y - line.y > _PARAGRAPH_GAP * line.size:
        return "\n\n"
    return "" if _HYPHEN.search(text) else " "


def _lines(page: PageObject) -> tuple[_Line, ...]:
    pieces: list[_Line] = []

    def visit(
        text: str, matrix: Sequence[float], within: Sequence[float], font: object, size: float
    ) -> None:
        # pypdf's two matrices: where the text is placed, inside where its block is placed.
        y = within[4] * matrix[1] + within[5] * matrix[3] + matrix[5]
        scale = abs(within[3] * matrix[3]) or 1.0
        pieces.append(_Line(text, round(size * scale, 1), y))

    page.extract_text(visitor_text=visit)
    return tuple(_whole_lines(pieces))


def _whole_lines(pieces: Iterable[_Line]) -> Iterable[_Line]:
    """Join pieces to lines; the first piece that is not blank gives a line its size and place."""
    text, first = "", None
    for piece in pieces:
        head, *rest = piece.text.split("\n")
        text += head
        first = first or (piece if head.strip() else None)
        for part in rest:
            if first and text.strip():
                yield _Line(" ".join(text.split()), first.size, first.y)
            text, first = part, piece if part.strip() else None
    if first and text.strip():
        yield _Line(" ".join(text.split()), first.size, first.y)


READERS: dict[str, Callable[[Path], tuple[Page, ...]]] = {
    ".md": _markdown,
    ".pdf": _pdf,
    ".txt": _plain,
}
