"""Reads XLSX and CSV as Markdown: a section per sheet, with its rows as tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from io import StringIO
from pathlib import Path
from typing import Any

from openpyxl import load_workbook

from ingest.document import Content, Page
from ingest.readers.office import open_office_file
from ingest.readers.plain_text import decode_text
from ingest.readers.tables import markdown_blocks

_SNIFF_CHARACTERS = 65536
# The limit of a CSV cell's characters: above the size of any file.
_MAX_CELL = 2**31 - 1


def read_xlsx(path: Path) -> Content:
    """Read all sheets of an XLSX, also hidden ones; formulas as their saved values."""
    with open_office_file(path) as file:
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sections = (section for sheet in book.worksheets for section in _section(sheet))
        return Content((Page("\n\n".join(sections), markdown=True),))


def _section(sheet: Any) -> Iterator[str]:
    """A sheet with its name as heading; nothing for an empty sheet."""
    sheet.reset_dimensions()  # Some programs write wrong dimensions, which hide cells.
    rows = ([_cell_text(cell) for cell in row] for row in sheet.iter_rows())
    tables = "\n\n".join(markdown_blocks(rows))
    yield from (f"# {sheet.title}", tables) if tables else ()


def _cell_text(cell: Any) -> str:
    """A cell's value as text: dates in ISO format, percentages with their sign."""
    value = cell.value
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    percent = "%" in str(cell.number_format or "")
    return f"{value * 100:.10g}%" if percent else f"{value:.15g}"


def read_csv(path: Path) -> Content:
    """Read a CSV; the delimiter is detected from its beginning."""
    text = decode_text(path.read_bytes())
    return Content((Page("\n\n".join(markdown_blocks(_rows(text))), markdown=True),))


def _rows(text: str) -> Iterable[list[str]]:
    csv.field_size_limit(_MAX_CELL)
    rows = csv.reader(StringIO(text, newline=""), delimiter=_delimiter(text[:_SNIFF_CHARACTERS]))
    return (row for row in rows if any(cell.strip() for cell in row))


def _delimiter(text: str) -> str:
    try:
        return csv.Sniffer().sniff(text, delimiters=",;\t|").delimiter
    except csv.Error:
        return ","
