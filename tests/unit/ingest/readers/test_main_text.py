"""Finds the main text of HTML pages, without what surrounds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.document import Page, UnreadableDocument
from ingest.readers.html import read_html
from tests.support.page_texts import page_texts

TEXT = "Members pay twenty dollars for a visit at any hospital of the plan. " * 4
MENU = "".join(f"<li><a href='{number}.html'>Chapter {number}</a>" for number in range(30))


def read(folder: Path, html: str) -> Page:
    (folder / "page.html").write_text(html, "utf-8")
    [page] = read_html(folder / "page.html").pages
    return page


def text(folder: Path, html: str) -> str:
    return read(folder, html).text


@pytest.mark.parametrize(
    "noise",
    [
        f"<nav><ul>{MENU}</ul></nav>",
        f"<div role=navigation><ul>{MENU}</ul></div>",
        "<div role=banner>Our company</div>",
        "<form role=search>Find a page</form>",
        "<header><a href=/>Our company</a></header>",
        "<aside>Also read this</aside>",
        "<footer>Copyright 2026</footer>",
        "<div class=navheader><table><tr><td>Prev<td>Next</table></div>",
    ],
)
def test_menus_sidebars_and_footers_are_left_out(tmp_path: Path, noise: str) -> None:
    assert text(tmp_path, f"{noise}<h1>Visits</h1><p>{TEXT}</p>") == f"# Visits\n\n{TEXT.strip()}"


def test_only_the_main_element_is_read(tmp_path: Path) -> None:
    html = f"<div>Menu</div><main><h1>Visits</h1><p>{TEXT}</main><div>Imprint</div>"

    assert text(tmp_path, html) == f"# Visits\n\n{TEXT.strip()}"


def test_notes_and_headers_in_the_main_text_are_kept(tmp_path: Path) -> None:
    inside = "<header><h1>Visits</h1></header><aside class=sidebar>Note</aside><footer>See</footer>"

    lines = text(tmp_path, f"<article>{inside}<p>{TEXT}</p></article>").split("\n\n")

    assert lines == ["# Visits", "Note", "See", TEXT.strip()]


def test_tables_code_and_definitions_in_the_main_text_are_kept(tmp_path: Path) -> None:
    table = "<table class=navigation><tr><td>Visit<td>20</table>"
    rest = "<pre>pay()</pre><dl><dt>Copay<dd>What you pay</dl><div class=admonition>Note</div>"

    markdown = text(tmp_path, f"<main><p>{TEXT}</p>{table}{rest}</main>")

    expected = ["| Visit | 20 |", "```\npay()\n```", "Copay", "What you pay", "Note"]
    assert [line for line in expected if line not in markdown] == []


def test_permalinks_of_headings_are_left_out(tmp_path: Path) -> None:
    links = "<a class=headerlink href='#v'>¶</a><a href='page.html#v'> # </a><a href='#1'>1</a>"

    assert text(tmp_path, f"<h1>Visits{links}</h1><p>{TEXT}").startswith("# Visits1\n\n")


def test_page_with_little_main_text_is_read_whole(tmp_path: Path) -> None:
    html = "<main><p>Loading ...</p></main><footer><p>Write to Anna.</p></footer>"

    assert text(tmp_path, html) == "Loading ...\n\nWrite to Anna."


def test_large_sidebar_is_the_text(tmp_path: Path) -> None:
    assert TEXT.strip() in text(tmp_path, f"<aside><p>{TEXT}</aside><p>{TEXT[:100]}")


INDEXES = {
    "a page of links": f"<h1>Contents</h1><ul>{MENU}</ul>",
    "Sphinx's index": "<table class='indextable genindextable'><tr><td><a href=a>a()</a></table>",
    "Sphinx's search": f"<script src='_static/searchtools.js'></script><p>{TEXT}",
}


@pytest.mark.parametrize("page", INDEXES)
def test_index_pages_are_skipped(tmp_path: Path, page: str) -> None:
    with pytest.raises(UnreadableDocument, match=r"^It is an index or a search form"):
        read(tmp_path, INDEXES[page])


@pytest.mark.parametrize(
    "html",
    [
        f"<ul>{MENU}</ul><p>{TEXT}",
        "".join(f"<p><a href='mailto:{number}@example.com'>{number}</a>" for number in range(30)),
        "".join(f"<li><a href='{number}'>Desk</a> {number * 100} dollars" for number in range(30)),
    ],
)
def test_links_with_text_are_no_index(tmp_path: Path, html: str) -> None:
    assert text(tmp_path, html)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Leave policy - Contoso Intranet", ""),
        ("leave", ""),
        ("LEAVE POLICY", ""),
        ("Sick", "Sick"),
        ("Leav", "Leav"),
    ],
)
def test_title_is_dropped_if_first_heading_repeats_it(
    tmp_path: Path, title: str, expected: str
) -> None:
    html = f"<title>{title}</title><h1><img></h1><h1>Leave policy</h1><p>Text"

    assert read(tmp_path, html).title == expected


def test_each_passage_of_a_page_begins_with_its_title_and_section(tmp_path: Path) -> None:
    sections = "".join(f"<h2>Part {number}</h2><p>{TEXT * 5}</p>" for number in range(3))

    page = read(tmp_path, f"<title>Visits</title><body><p>{TEXT}{sections}")

    titles = {content.partition("\n")[0] for content in page_texts(page)}
    assert titles == {"Visits", *(f"Visits > Part {number}" for number in range(3))}
