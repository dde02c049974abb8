"""Finds the main text of an HTML page: without menus, sidebars, footers and permalinks.

The rules are structural and cautious: to lose content is worse than to keep a menu.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bs4 import BeautifulSoup, Tag

_NOISE = {*"script style nav noscript template iframe object svg canvas button select head".split()}
_NOISE_ROLES = {"navigation", "search", "banner", "contentinfo"}
_EDGES = {"header", "footer", "aside"}
# Classes and ids of generators whose pages have no main element: DocBook, AsciiDoc, gtk-doc.
_EDGE_NAMES = {
    *"navheader navfooter navigation navbar nav-panel breadcrumb breadcrumbs sidebar footer".split()
}
_CONTENT = ["main", "article", "blockquote"]
_MIN_SHARE = 0.3  # of the text: a main element with less is not the page's main text
_MAX_EDGE_SHARE = 0.5  # of the text: a sidebar with more is none
_MIN_LINKS = 20  # of an index page
_LINK_SHARE = 0.9  # of the words of an index page that are links
_MAX_LABEL = 80  # characters of a text between links; a longer one is a sentence
_SYMBOL = re.compile(r"[\W_]?")
_ADDRESSES = ("mailto:", "tel:")  # a list of them is content


def remove_noise(soup: BeautifulSoup) -> None:
    """Remove what no reader of the page sees as its text: scripts, menus, permalinks."""
    _remove(soup.find_all(_is_noise))


def find_main(soup: BeautifulSoup) -> Sequence[Tag]:
    """The elements with the main text of a page without noise; changes the page."""
    size = _text_size(soup)
    mains = [tag for tag in soup.find_all(_is_main) if tag.find_parent(_is_main) is None]
    if mains and sum(map(_text_size, mains)) >= _MIN_SHARE * size:
        return mains
    edges = soup.find_all(_is_edge)
    _remove([tag for tag in edges if _text_size(tag) < _MAX_EDGE_SHARE * size])
    return (soup,)


def is_index(soup: BeautifulSoup, parts: Sequence[Tag]) -> bool:
    """Whether a page is an index or a search form, with links in the place of a text.

    `parts` has its main text.
    """
    if soup.find("table", class_=["genindextable", "modindextable", "indextable"]):  # Sphinx
        return True
    links = [link for part in parts for link in part.find_all("a", href=True)]
    pages = [link for link in links if not str(link["href"]).startswith(_ADDRESSES)]
    if len(pages) < _MIN_LINKS or any(map(_has_sentence, parts)):
        return False
    headings = [tag for part in parts for tag in part.find_all(re.compile("^h[1-6]$"))]
    own = sum(map(_text_size, parts)) - sum(_text_size(tag) for tag in headings if not tag.a)
    return sum(map(_text_size, pages)) >= _LINK_SHARE * own


def _has_sentence(part: Tag) -> bool:
    """Whether there is a long text outside of links."""
    texts = (text for text in part.find_all(string=True) if len(text.strip()) > _MAX_LABEL)
    return any(text.find_parent("a") is None for text in texts)


def is_search_form(soup: BeautifulSoup) -> bool:
    """Whether a page, with its scripts, is the search page of Sphinx."""
    return soup.find("script", src=re.compile(r"\bsearchtools\.js")) is not None


def _is_noise(tag: Tag) -> bool:
    if tag.name in _NOISE or tag.get("role") in _NOISE_ROLES:
        return True
    return _is_permalink(tag) if tag.name == "a" else tag.get("hidden") in ("", "hidden")


def _is_permalink(link: Tag) -> bool:
    """Whether a link to a place in a page shows only a symbol, such as the ¶ of a heading."""
    is_anchor = "#" in str(link.get("href", ""))
    return is_anchor and bool(_SYMBOL.fullmatch(link.get_text().strip())) and link.img is None


def _is_main(tag: Tag) -> bool:
    return tag.name == "main" or tag.get("role") == "main"


def _is_edge(tag: Tag) -> bool:
    names = {*(tag.get("class") or ()), tag.get("id")}
    if tag.name not in _EDGES and names.isdisjoint(_EDGE_NAMES):
        return False
    # The title of a page may stand in its header, and an article has notes of its own.
    return tag.find_parent(_CONTENT) is None and tag.h1 is None


def _text_size(tag: Tag) -> int:
    """The number of characters that are not white space."""
    return sum(len("".join(text.split())) for text in tag.strings)


def _remove(tags: Sequence[Tag]) -> None:
    for tag in tags:
        if not tag.decomposed:
            tag.decompose()
