"""Reads PPTX: a section per slide with its title, tables and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pptx import Presentation

from ingest.document import Content, Page
from ingest.readers.office import open_office_file
from ingest.readers.tables import markdown_table


def read_pptx(path: Path) -> Content:
    """Read all slides in order, also hidden ones."""
    with open_office_file(path) as file:
        slides = Presentation(file).slides
        texts = (_slide(number, slide) for number, slide in enumerate(slides, 1))
        return Content((Page("\n\n".join(filter(None, texts)), markdown=True),))


def _slide(number: int, slide: Any) -> str:
    """A slide as Markdown; empty where it has no text."""
    title = slide.shapes.title
    heading_text = " ".join(title.text_frame.text.split()) if title is not None else ""
    heading = f"# Slide {number}: {heading_text}" if heading_text else f"# Slide {number}"
    title_id = title.shape_id if title is not None and heading_text else None
    shapes = (shape for shape in slide.shapes if shape.shape_id != title_id)
    texts = tuple(filter(None, (*_texts(shapes), *_notes(slide))))
    return "\n\n".join((heading, *texts)) if heading_text or texts else ""


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
    """A text frame's paragraphs; indented ones as a list."""
    lines = ((line.level, " ".join(line.text.split())) for line in frame.paragraphs)
    items = ((f"{'  ' * (level - 1)}- " if level else "", text) for level, text in lines if text)
    return "\n".join(mark + text for mark, text in items)
