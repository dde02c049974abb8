"""Which passages does a document have, and under which name is each of them cited?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from shared.chat.citation_paths import MAX_PATH_LENGTH, encode_path
from shared.ingest.document import Page, UnreadableDocument
from shared.ingest.splitting.boundaries import split_text
from shared.ingest.splitting.captions import image_caption
from shared.ingest.splitting.packing import split_markdown, split_plain
from shared.ingest.splitting.sections import Section, heading_lines, split_sections
from shared.text.tokens import count_tokens

MAX_TOKENS = 350
"""The most tokens of a passage, by `count_tokens`: about two paragraphs."""

SPLITTER_VERSION = 2
"""Part of each file's fingerprint: raise it with any change in what a file's passages are."""


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
class PassageSpan:
    """The content of a passage, and where in its page's text it lies, headings included.

    What several cuts share is what is said again. Nothing but white space lies in none.
    """

    content: str
    start: int
    end: int


def split_document(
    name: str, pages: Iterable[Page], category: str | None = None
) -> Iterator[Passage]:
    """Split the pages of the file `name`, its path from the documents' folder with `/`.

    The category is the file's top folder, unless the file gives one itself. Raises Unreadable.
    """
    if len(name) > MAX_PATH_LENGTH:
        raise UnreadableDocument("Its path is too long to be cited.")
    if "\n" in name:  # The routes of a web server end at one, however it is written in a link.
        raise UnreadableDocument("Its path has a line break: no link would open it.")
    folder, slash, _ = name.partition("/")
    sourcefile = encode_path(name)
    within = category or (folder if slash else "")
    whole = Passage(id_prefix(name), "", sourcefile, sourcefile, within)
    for page in pages:
        yield from _page_passages(name, page, whole)


def _page_passages(name: str, page: Page, whole: Passage) -> Iterator[Passage]:
    anchor = f"#page={page.number}" if page.number else ""
    key, cited = f"{whole.id}-p{page.number or 0}", whole.sourcepage + anchor
    for part, content in enumerate(page_texts(page), 1):
        yield replace(whole, id=f"{key}-{part}", content=content, sourcepage=cited)
    for place, picture in enumerate(page.images):
        content = split_text(image_caption(name, page, place), MAX_TOKENS)[0].strip()
        picture_key = f"{key}-i{place + 1}"
        shown = replace(whole, id=picture_key, content=content, sourcepage=cited)
        yield replace(shown, image=picture.data)


def with_description(passage: Passage, description: str) -> Passage:
    """A picture's passage with what a model sees in it, below the line that names the picture."""
    named = passage.content.partition("\n")[0]
    first, *_ = split_text(f"{named}\n\n{description.strip()}", MAX_TOKENS)
    return replace(passage, content=first.strip())


def id_prefix(name: str) -> str:
    """What the ids of a file's passages begin with, before a hyphen."""
    # Readable, and with the hash no two paths share it. An id may hold no other characters, and
    # Azure AI Search takes none that begins with `_`.
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", name).lstrip("_")[:80]
    return f"{readable}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def page_texts(page: Page) -> Iterator[str]:
    """Split a page into texts of at most `MAX_TOKENS` tokens. No word is lost.

    A Markdown passage begins with the headings above it, `Northwind Standard > Dental`.
    """
    return (cut.content for cut in page_spans(page))


def page_spans(page: Page) -> Iterator[PassageSpan]:
    """The same, with their places in the page's text."""
    if page.markdown:
        for section in split_sections(page.text, MAX_TOKENS):
            yield from _section_spans(page.text, section)
    else:
        for part in split_plain(page.text, MAX_TOKENS):
            yield PassageSpan(page.text[part.start : part.end].strip(), part.start, part.end)


def _section_spans(text: str, section: Section) -> Iterator[PassageSpan]:
    above = heading_lines(section, MAX_TOKENS)
    start = f"{above}\n\n" if above else ""
    # A heading too long to be carried stays in the text.
    place = section.body if above else section.start
    body = text[place : section.end]
    parts = tuple(split_markdown(body, MAX_TOKENS - count_tokens(start)))
    for number, part in enumerate(parts):
        begin = place + part.start if number else section.start
        said = part.header + body[part.start : part.end]
        yield PassageSpan(start + said.strip(), begin, place + part.end)
    if above and not parts:
        yield PassageSpan(above, section.start, section.end)
