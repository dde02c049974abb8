"""Reads the main text of HTML as Markdown with its headings, lists and tables."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector
from bs4.element import NavigableString, PageElement, PreformattedString

from ingest.document import Content, Page, UnreadableDocument, distinct_title
from ingest.readers import main_text
from ingest.readers.plain_text import bom_encoding, decode_text
from ingest.readers.tables import markdown_table

_MAX_SPAN = 100  # columns or rows that one cell may span; larger values are errors of the page


def _table_rows(node: Tag) -> list[list[str]]:
    """The rows of a table; a cell that spans rows is repeated in each."""
    pending: dict[int, tuple[int, str]] = {}
    return [_expand_row(row.find_all(["td", "th"]), pending) for row in node.find_all("tr")]


def _expand_row(cells: Iterable[Tag], pending: dict[int, tuple[int, str]]) -> list[str]:
    """Expand one row; `pending` has the cells that span from rows above, by column."""
    row: list[str] = []
    for cell in cells:
        _fill_from_above(row, pending)
        height = _span(cell, "rowspan")
        text = " ".join(_collapse_spaces(block) for block in _blocks(cell))
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


_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {
    *"address article aside blockquote body caption center dd details dialog div dl dt".split(),
    *"fieldset figcaption figure footer form header hr html legend li main menu ol p pre".split(),
    *"section summary table tbody td tfoot th thead tr ul".split(),
    *_HEADINGS,
}
_MIN_TEXT = 200  # characters; a main text with less may be a mistake, so the whole page is read
_DECLARATION_BYTES = 2**16  # BeautifulSoup searches 5 % of them with a regex of cubic time
_BLANKS = re.compile(r"[^\S\n\N{NO-BREAK SPACE}]+")


def read_html(path: Path) -> Content:
    """Read the main text of a page in the encoding that it declares, else UTF-8 or Windows-1252.

    Raises UnreadableDocument for a page that is an index.
    """
    html = _decode(path.read_bytes())
    soup = _parse(html)
    is_search_form = main_text.is_search_form(soup)
    title = _collapse_spaces(soup.title.get_text()) if soup.title else ""
    main_text.remove_noise(soup)
    parts = main_text.find_main(soup)
    if is_search_form or main_text.is_index(soup, parts):
        raise UnreadableDocument("It is an index or a search form, without text of its own.")
    text = _to_markdown(parts)
    if len(text) < _MIN_TEXT:
        text = html_to_markdown(html)
    return Content((Page(text, markdown=True, title=distinct_title(title, _first_heading(parts))),))


def _decode(data: bytes) -> str:
    name = EncodingDetector.find_declared_encoding(data[:_DECLARATION_BYTES], is_html=True) or ""
    # A declaration that can be read as ASCII is not in UTF-16.
    declared = "" if bom_encoding(data) or name.lower().startswith(("utf-16", "utf-32")) else name
    try:
        return data.decode(declared) if declared else decode_text(data)
    except (LookupError, ValueError):  # The declared encoding is wrong or unknown.
        return decode_text(data)


def html_to_markdown(html: str) -> str:
    """Convert a whole page to Markdown, without its scripts and menus."""
    soup = _parse(html)
    main_text.remove_noise(soup)
    return _to_markdown((soup,))


def _parse(html: str) -> BeautifulSoup:
    # The warnings are about XHTML, and text that looks like a file's name.
    with warnings.catch_warnings(action="ignore"):
        return BeautifulSoup(html, "lxml")


def _to_markdown(parts: Sequence[Tag]) -> str:
    try:
        return "\n\n".join(block for part in parts for block in _blocks(part))
    except RecursionError:  # nested too deeply to convert
        return "\n\n".join(part.get_text("\n") for part in parts)


def _first_heading(parts: Sequence[Tag]) -> str:
    headings = (tag for part in parts for tag in part.find_all("h1"))
    return next(filter(None, (_collapse_spaces(tag.get_text()) for tag in headings)), "")


def _blocks(parent: Tag) -> Iterator[str]:
    """Yield the Markdown blocks of an element; inline content between blocks is a paragraph."""
    for is_block, children in groupby(parent.children, key=_is_block):
        if is_block:
            for child in children:
                yield from _block(child)
        elif text := _collapse_lines("".join(map(_inline, children))):
            yield text


def _is_block(node: PageElement) -> bool:
    if not isinstance(node, Tag):
        return False
    return node.name in _BLOCKS or any(
        isinstance(below, Tag) and below.name in _BLOCKS for below in node.descendants
    )


def _block(node: PageElement) -> Iterator[str]:
    if not isinstance(node, Tag):
        return
    if node.name in _HEADINGS:
        if text := _collapse_spaces(_inline(node)):
            yield f"{_HEADINGS[node.name]} {text}"
    elif node.name == "pre":
        yield _code_block(node.get_text())
    elif node.name in ("ul", "ol", "menu"):
        yield "\n".join(_list_items(node))
    elif node.name == "table" and node.find("table") is None:
        yield from _table(node)
    else:
        yield from _blocks(node)


def _code_block(text: str) -> str:
    fence = "~~~" if "```" in text else "```"
    return f"{fence}\n{text.strip(chr(10))}\n{fence}"


def _list_items(parent: Tag) -> Iterator[str]:
    """Yield a list's items, with nested content indented."""
    number = 0
    for child in parent.find_all(recursive=False):
        number += child.name == "li"
        mark = f"{number}. " if parent.name == "ol" else "- "
        lines = "\n".join(_blocks(child)).split("\n")
        if any(lines):
            yield mark + ("\n" + " " * len(mark)).join(lines)


def _table(node: Tag) -> Iterator[str]:
    """Yield a table below its caption; a table of one column is layout and yields its content."""
    rows = _table_rows(node)
    if max(map(len, rows), default=0) < 2:
        yield from _blocks(node)
        return
    if node.caption:
        yield _collapse_spaces(_inline(node.caption))
    if table := markdown_table(rows):
        yield table


def _inline(node: PageElement) -> str:
    """The text of inline content."""
    if isinstance(node, NavigableString):
        return "" if isinstance(node, PreformattedString) else str(node).replace("\n", " ")
    if not isinstance(node, Tag):
        return ""
    if node.name == "br":
        return "\n"
    if node.name == "img":
        return f" {node.get('alt') or ''} "
    return "".join(map(_inline, node.children))


def _collapse_lines(text: str) -> str:
    return "\n".join(filter(None, map(_collapse_spaces, text.split("\n"))))


def _collapse_spaces(text: str) -> str:
    return _BLANKS.sub(" ", text.replace("\n", " ")).strip()
