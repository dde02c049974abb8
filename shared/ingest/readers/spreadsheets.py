"""Workbooks and CSV: each sheet a section, its rows tables whose header is repeated."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from io import StringIO
from pathlib import Path
from typing import Any

from openpyxl import load_workbook

from shared.ingest.document import Content, Page
from shared.ingest.readers.office import open_office_file
from shared.ingest.readers.plain_text import decode_text
from shared.ingest.readers.tables import markdown_blocks

_SNIFF_CHARACTERS = 65536
# A cell of a CSV may be this long: as much as any file that is read.
_MAX_CELL = 2**31 - 1


def read_xlsx(path: Path) -> Content:
    """All sheets of an XLSX, hidden ones too; of a formula the value it had when it was saved."""
    with open_office_file(path) as file:
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sections = (section for sheet in book.worksheets for section in _section(sheet))
        return Content((Page("\n\n".join(sections), markdown=True),))


def _section(sheet: Any) -> Iterator[str]:
    """A sheet under its name; nothing of one without any cell that says something."""
    tables = "\n\n".join(_tables(sheet))
    yield from (f"# {sheet.title}", tables) if tables else ()


def _tables(sheet: Any) -> Iterator[str]:
    sheet.reset_dimensions()  # Some programs write a size that hides most of the cells.
    return markdown_blocks([_cell_text(cell) for cell in row] for row in sheet.iter_rows())


def _cell_text(cell: Any) -> str:
    """What a cell shows, for the kinds of values whose bare form would mislead."""
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
    """A CSV; what parts its columns is found by its first rows."""
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
