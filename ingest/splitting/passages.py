"""Splits documents into passages, the units of search and citation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import PurePosixPath

from ingest.document import Page, UnreadableDocument
from ingest.splitting.packing import (
    Section,
    add_title,
    heading_lines,
    split_markdown,
    split_plain,
    split_sections,
    split_text,
)
from shared.domain.events import MAX_PATH_LENGTH, encode_path
from shared.text import count_tokens

_LABEL = r"(?:fig(?:ure|\.)|image|picture|photo|chart|diagram|graph|map|abb(?:ildung|\.)|bild)"
_CAPTION = re.compile(rf"^[^\w\n]*{_LABEL}\s*\d+.*$", re.IGNORECASE | re.MULTILINE)
_MAX_HEADING = 120  # characters; a longer first line is a paragraph
_SNIPPET_LENGTH = 300  # characters of the page's text


def image_caption(name: str, page: Page, place: int) -> str:
    """The text for the image number `place` (from 0) on a page of the file `name`.

    The first line names it; its caption, the page's heading and first words follow.
    """
    if not page.number:
        return f"Picture: {_path_to_words(name)} ({name})"
    title = _path_to_words(PurePosixPath(name).name)
    lines = [f"Picture on page {page.number} of {title} ({name})"]
    captions = [match[0].strip() for match in _CAPTION.finditer(page.text)]
    if place < len(captions):
        lines.append(captions[place])
    return "\n".join((*lines, *_heading_and_snippet(page.text))).strip()


def _heading_and_snippet(text: str) -> tuple[str, ...]:
    """The heading of a page and the beginning of its text, cut at a space."""
    heading, _, rest = text.strip().partition("\n")
    if len(heading) > _MAX_HEADING:
        heading, rest = "", text
    flat = " ".join(rest.split())
    if len(flat) > _SNIPPET_LENGTH:
        flat = flat[:_SNIPPET_LENGTH].rpartition(" ")[0] or flat[:_SNIPPET_LENGTH]
    return tuple(line for line in (heading, flat) if line)


def _path_to_words(name: str) -> str:
    """Convert a path to words: `board/org-chart_2024.png` to `board org chart 2024`."""
    bare = str(PurePosixPath(name).with_suffix(""))
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[-_/.+]+", " ", bare))
    return " ".join(spaced.split())


MAX_TOKENS = 350
"""The limit of a passage's tokens, by `count_tokens`: about two paragraphs."""

SPLITTER_VERSION = 3
"""Part of each file's fingerprint: increase it when the passages of a file change."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that is searched, and cited as `[sourcepage]`."""

    id: str
    content: str
    sourcepage: str
    sourcefile: str
    category: str
    oids: tuple[str, ...] = ()  # the users who may see it; with no users and groups everyone may
    groups: tuple[str, ...] = ()  # the groups who may see it
    image: bytes | None = None  # that the passage describes, PNG or JPEG
    heading: str = ""  # the headings above the text, with which `content` begins


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """The content of a passage, and its offsets in the page's text, headings included.

    Spans overlap where text is repeated. Text outside of all spans is white space.
    """

    content: str
    start: int
    end: int
    heading: str = ""  # with which `content` begins


def split_document(
    name: str, pages: Iterable[Page], category: str | None = None
) -> Iterator[Passage]:
    """Split the pages of the file `name`, its path from the documents' folder with `/`.

    The category is the file's top folder, unless its front matter names one. Raises
    UnreadableDocument.
    """
    if len(name) > MAX_PATH_LENGTH:
        raise UnreadableDocument("Its path is too long to be cited.")
    if "\n" in name:  # Routes of web servers do not match past a line break, however it is encoded.
        raise UnreadableDocument("Its path has a line break: no link would open it.")
    folder, slash, _ = name.partition("/")
    sourcefile = encode_path(name)
    label = category or (folder if slash else "")
    template = Passage(id_prefix(name), "", sourcefile, sourcefile, label)
    for page in pages:
        yield from _page_passages(name, page, template)


def _page_passages(name: str, page: Page, template: Passage) -> Iterator[Passage]:
    anchor = f"#page={page.number}" if page.number else ""
    template = replace(template, sourcepage=template.sourcepage + anchor)
    key = f"{template.id}-p{page.number or 0}"
    for part, span in enumerate(page_spans(page), 1):
        yield replace(template, id=f"{key}-{part}", content=span.content, heading=span.heading)
    for place, image in enumerate(page.images):
        content = split_text(image_caption(name, page, place), MAX_TOKENS)[0].strip()
        yield replace(template, id=f"{key}-i{place + 1}", content=content, image=image)


def with_description(passage: Passage, description: str) -> Passage:
    """Replace an image's text with a model's description, below the line that names the image."""
    title = passage.content.partition("\n")[0]
    first, *_ = split_text(f"{title}\n\n{description.strip()}", MAX_TOKENS)
    return replace(passage, content=first.strip())


def id_prefix(name: str) -> str:
    """The prefix of the ids of a file's passages; a hyphen follows it."""
    # Azure AI Search accepts no other characters in a key, and no `_` at its start. The hash keeps
    # the prefixes of different paths apart.
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", name).lstrip("_")[:80]
    return f"{readable}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def page_spans(page: Page) -> Iterator[PassageSpan]:
    """Split a page into texts of at most `MAX_TOKENS` tokens without losing a word.

    A Markdown passage begins with the headings above it, `Northwind Standard > Dental`, and each
    with the page's title.
    """
    if page.markdown:
        for section in split_sections(page.text, MAX_TOKENS):
            yield from _section_spans(page.text, section, page.title)
    else:
        start = f"{page.title}\n\n" if page.title else ""
        for part in split_plain(page.text, MAX_TOKENS - count_tokens(start)):
            content = start + page.text[part.start : part.end].strip()
            yield PassageSpan(content, part.start, part.end, page.title)


def _section_spans(text: str, section: Section, title: str) -> Iterator[PassageSpan]:
    heading = heading_lines(add_title(title, section), MAX_TOKENS)
    start = f"{heading}\n\n" if heading else ""
    # A heading that is too long to be repeated stays in the text.
    place = section.body if heading else section.start
    body = text[place : section.end]
    parts = tuple(split_markdown(body, MAX_TOKENS - count_tokens(start)))
    for number, part in enumerate(parts):
        begin = place + part.start if number else section.start
        content = part.header + body[part.start : part.end]
        yield PassageSpan(start + content.strip(), begin, place + part.end, heading)
    if section.path and heading and not parts:
        yield PassageSpan(heading, section.start, section.end, heading)
