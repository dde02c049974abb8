"""Which passages does a document have, and under which name is each of them cited?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from shared.ingest.read import Page
from shared.tokens import count_tokens

LIMIT = 350
"""The most tokens of a passage, by `count_tokens`: about two paragraphs."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_TABLE = re.compile(r"^(?P<header>\|.*\n\|[ \t:|-]+\n)(?:\|.*(?:\n|\Z))+", re.MULTILINE)
# These four have a meaning in a citation `[path#page=3]` and in the link made of it.
_RESERVED = re.compile(r"[\[\]#%]")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that is found and cited as `[sourcepage]`.

    `oids` and `groups` name the users and groups who may see it; both empty means everyone.
    `image` is the picture that the passage describes: PNG or JPEG.
    """

    id: str
    content: str
    sourcepage: str
    sourcefile: str
    category: str
    oids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    image: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    """The text under one heading; `path` names that heading last, the ones above it first."""

    path: tuple[str, ...]
    body: str


def passages(name: str, pages: Iterable[Page]) -> Iterator[Passage]:
    """Split the pages of the file `name`, its path from the documents' folder with `/`."""
    sourcefile = _RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", name)
    category, slash, _ = name.partition("/")
    for page in pages:
        anchor = f"#page={page.number}" if page.number else ""
        for part, content in enumerate(split(page), 1):
            yield Passage(
                id=f"{_key(name)}-p{page.number or 0}-{part}",
                content=content,
                sourcepage=sourcefile + anchor,
                sourcefile=sourcefile,
                category=category if slash else "",
            )


def _key(name: str) -> str:
    # Readable, and with the hash no two paths share it. An id may hold no other characters.
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:80]
    return f"{readable}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def split(page: Page) -> Iterator[str]:
    """Split a page into texts of at most `LIMIT` tokens. No word is lost.

    A Markdown passage begins with the headings above it, `Northwind Standard > Dental`.
    """
    if not page.markdown:
        yield from _stripped(pieces(page.text, LIMIT))
        return
    sections = tuple(_sections(page.text))
    for section, following in zip(sections, (*sections[1:], None), strict=True):
        if not (following and _says(following, section)):
            yield from _section_passages(section)


def pieces(text: str, limit: int) -> tuple[str, ...]:
    """Cut `text` at its natural borders. Joined, the pieces are the text."""
    return tuple(TextSplitter.from_callback(count_tokens, limit, trim=False).chunks(text))


def _stripped(texts: Iterable[str]) -> Iterator[str]:
    return (text.strip() for text in texts if text.strip())


def _sections(text: str) -> Iterator[_Section]:
    path: tuple[tuple[int, str], ...] = ()
    body: list[str] = []
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading:
            yield _Section(tuple(title for _, title in path), "".join(body))
            level = len(heading[1])
            path, body = (*(above for above in path if above[0] < level), (level, heading[2])), []
        else:
            body.append(line)
    yield _Section(tuple(title for _, title in path), "".join(body))


def _lead(section: _Section) -> str:
    """The heading path, without its outer headings where it would fill half of a passage."""
    path = section.path
    while path and count_tokens(" > ".join(path)) > LIMIT // 2:
        path = path[1:]
    return " > ".join(path)


def _says(following: _Section, section: _Section) -> bool:
    """Whether an empty section needs no passage, as the next one carries its headings."""
    below = following.path[:-1][: len(section.path)] == section.path
    return not section.body.strip() and below and _lead(following) == " > ".join(following.path)


def _section_passages(section: _Section) -> Iterator[str]:
    lead = _lead(section)
    # A heading too long to be carried stays in the text.
    body = section.body if lead else "\n\n".join((*section.path[-1:], section.body))
    start = f"{lead}\n\n" if lead else ""
    parts = tuple(_stripped(_markdown_pieces(body, LIMIT - count_tokens(start))))
    yield from (start + part for part in parts) if parts else _stripped((lead,))


def _markdown_pieces(body: str, limit: int) -> Iterator[str]:
    """Like `pieces`, but a piece that begins inside a table repeats the table's header."""
    tables = tuple(found for found in _TABLE.finditer(body) if _repeats(found, limit))
    room = limit - max((count_tokens(found["header"]) for found in tables), default=0)
    splitter = MarkdownSplitter.from_callback(count_tokens, room, trim=False)
    for start, piece in splitter.chunk_indices(body):
        inside = (found for found in tables if found.end("header") <= start < found.end())
        yield next((found["header"] for found in inside), "") + piece


def _repeats(table: re.Match[str], limit: int) -> bool:
    fits = count_tokens(table[0]) <= limit
    return not fits and count_tokens(table["header"]) <= limit // 2
