"""PPTX: each slide a section under its title, with its tables and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pptx import Presentation

from shared.ingest.document import Content, Page
from shared.ingest.readers.office import open_office_file
from shared.ingest.readers.tables import markdown_table


def read_pptx(path: Path) -> Content:
    """All slides in their order, hidden ones too."""
    with open_office_file(path) as file:
        shown = Presentation(file).slides
        texts = (_slide(number, slide) for number, slide in enumerate(shown, 1))
        return Content((Page("\n\n".join(filter(None, texts)), markdown=True),))


def _slide(number: int, slide: Any) -> str:
    """A slide in Markdown; nothing of one that has no words."""
    title = slide.shapes.title
    named = " ".join(title.text_frame.text.split()) if title is not None else ""
    heading = f"# Slide {number}: {named}" if named else f"# Slide {number}"
    own = title.shape_id if title is not None and named else None
    shapes = (shape for shape in slide.shapes if shape.shape_id != own)
    texts = tuple(filter(None, (*_texts(shapes), *_notes(slide))))
    return "\n\n".join((heading, *texts)) if named or texts else ""


def _texts(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _texts(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield markdown_table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif shape.has_text_frame and (text := _lines(shape.text_frame)):
            yield text


def _notes(slide: Any) -> Iterator[str]:
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and (text := _lines(frame)):
        yield f"Notes: {text}"


def _lines(frame: Any) -> str:
    """A text frame's paragraphs; deeper ones as a list."""
    said = ((line.level, " ".join(line.text.split())) for line in frame.paragraphs)
    marks = ((f"{'  ' * (level - 1)}- " if level else "", text) for level, text in said if text)
    return "\n".join(mark + text for mark, text in marks)
