"""Builds the text of an image's passage from its page and its file's name, without a model."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from shared.ingest.document import Page

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
    snippet = (
        flat
        if len(flat) <= _SNIPPET_LENGTH
        else flat[:_SNIPPET_LENGTH].rpartition(" ")[0] or flat[:_SNIPPET_LENGTH]
    )
    return tuple(line for line in (heading, snippet) if line)


def _path_to_words(name: str) -> str:
    """Convert a path to words: `board/org-chart_2024.png` to `board org chart 2024`."""
    bare = str(PurePosixPath(name).with_suffix(""))
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[-_/.+]+", " ", bare))
    return " ".join(spaced.split())
