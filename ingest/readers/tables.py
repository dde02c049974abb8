"""Formats rows as Markdown tables, and finds the tables of a sheet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

Row = Sequence[str]

_NUMBER = re.compile(r"[^\w]*\d[\d.,:%/\-\s]*[^\w]*$")


def markdown_table(rows: Sequence[Row]) -> str:
    """Format rows as a Markdown table; the first is the header. Empty columns are dropped."""
    width = max(map(len, rows), default=0)
    padded = [[_escape_cell(text) for text in (*row, *[""] * (width - len(row)))] for row in rows]
    columns = [column for column in range(width) if any(row[column] for row in padded)]
    if not columns:
        return ""
    lines = ["| " + " | ".join(row[column] for column in columns) + " |" for row in padded]
    return "\n".join((lines[0], "|" + "---|" * len(columns), *lines[1:]))


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def markdown_blocks(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the tables of a sheet, and its lines of text, as Markdown.

    Empty rows separate them. Rows after a gap that have no header get the previous one.
    """
    header: Row = ()
    for empty, group in groupby(rows, key=lambda row: not any(text.strip() for text in row)):
        if empty:
            continue
        lines = list(group)
        above = _lines_above(lines)
        yield from map(_line, lines[:above])
        lines = lines[above:]
        if lines and header and not _is_header(lines[0]):
            lines.insert(0, header)
        if lines:
            header = lines[0]
            yield markdown_table(lines)


def _lines_above(rows: Sequence[Row]) -> int:
    """The number of text rows above a table. If all rows have one cell, they are a table."""
    first = next((number for number, row in enumerate(rows) if not _is_line(row)), None)
    return first if first is not None else len(rows) == 1


def _non_empty(row: Row) -> list[str]:
    return [text for text in row if text.strip()]


def _is_line(row: Row) -> bool:
    return len(_non_empty(row)) == 1


def _line(row: Row) -> str:
    return " ".join(_non_empty(row)[0].split())


def _is_header(row: Row) -> bool:
    return not any(_NUMBER.match(text.strip()[:40]) for text in row)
