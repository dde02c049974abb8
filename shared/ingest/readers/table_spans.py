"""Which text stands where in an HTML table whose cells span columns and rows?"""

from __future__ import annotations

from collections.abc import Callable

from bs4 import Tag

_MAX_SPAN = 100  # columns or rows that one cell spans: a page that says more means none of it


def expand_spans(node: Tag, said: Callable[[Tag], str]) -> list[list[str]]:
    """A table's rows. A cell that spans rows is repeated, so that each row says it."""
    rows: list[list[str]] = []
    falling: dict[int, tuple[int, str]] = {}
    for row in node.find_all("tr"):
        cells = row.find_all(["td", "th"])
        rows.append(_expand_row([cell for cell in cells if isinstance(cell, Tag)], falling, said))
    return rows


def _expand_row(
    cells: list[Tag], falling: dict[int, tuple[int, str]], said: Callable[[Tag], str]
) -> list[str]:
    """One row; `falling` holds what comes down from the rows above, by its column."""
    row: list[str] = []
    for cell in cells:
        _fill_from_above(row, falling)
        down, text = _span(cell, "rowspan"), said(cell)
        for number in range(_span(cell, "colspan")):
            if down > 1:
                falling[len(row)] = (down - 1, "" if number else text)
            row.append("" if number else text)
    _fill_from_above(row, falling)
    return row


def _fill_from_above(row: list[str], falling: dict[int, tuple[int, str]]) -> None:
    while len(row) in falling:
        left, text = falling.pop(len(row))
        if left > 1:
            falling[len(row)] = (left - 1, text)
        row.append(text)


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1"))
    return min(max(int(value), 1), _MAX_SPAN) if value.isascii() and value.isdigit() else 1
