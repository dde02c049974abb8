"""Expands the spans of an HTML table to a grid of cells."""

from __future__ import annotations

from collections.abc import Callable

from bs4 import Tag

_MAX_SPAN = 100  # columns or rows that one cell may span; larger values are errors of the page


def expand_spans(node: Tag, cell_text: Callable[[Tag], str]) -> list[list[str]]:
    """The rows of a table; a cell that spans rows is repeated in each."""
    rows: list[list[str]] = []
    pending: dict[int, tuple[int, str]] = {}
    for row in node.find_all("tr"):
        cells = row.find_all(["td", "th"])
        rows.append(
            _expand_row([cell for cell in cells if isinstance(cell, Tag)], pending, cell_text)
        )
    return rows


def _expand_row(
    cells: list[Tag], pending: dict[int, tuple[int, str]], cell_text: Callable[[Tag], str]
) -> list[str]:
    """Expand one row; `pending` has the cells that span from rows above, by column."""
    row: list[str] = []
    for cell in cells:
        _fill_from_above(row, pending)
        height, text = _span(cell, "rowspan"), cell_text(cell)
        for number in range(_span(cell, "colspan")):
            if height > 1:
                pending[len(row)] = (height - 1, "" if number else text)
            row.append("" if number else text)
    _fill_from_above(row, pending)
    return row


def _fill_from_above(row: list[str], pending: dict[int, tuple[int, str]]) -> None:
    while len(row) in pending:
        left, text = pending.pop(len(row))
        if left > 1:
            pending[len(row)] = (left - 1, text)
        row.append(text)


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1"))
    return min(max(int(value), 1), _MAX_SPAN) if value.isascii() and value.isdigit() else 1
