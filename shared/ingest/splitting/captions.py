"""Which words stand for a picture, where no model has looked at it? Those that are known of it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from shared.ingest.document import Page

_LABEL = r"(?:fig(?:ure|\.)|image|picture|photo|chart|diagram|graph|map|abb(?:ildung|\.)|bild)"
_CAPTION = re.compile(rf"^[^\w\n]*{_LABEL}\s*\d+.*$", re.IGNORECASE | re.MULTILINE)
_MAX_HEADING = 120  # characters; a longer first line is a paragraph
_SNIPPET_LENGTH = 300  # characters of the page's text


def image_caption(name: str, page: Page, place: int) -> str:
    """What is known of the picture at `place` on a page of the file `name`.

    The first line names it; below stand its caption, the page's heading and its first words.
    """
    if not page.number:
        return f"Picture: {_path_to_words(name)} ({name})"
    title = _path_to_words(PurePosixPath(name).name)
    lines = [f"Picture on page {page.number} of {title} ({name})"]
    captions = [found[0].strip() for found in _CAPTION.finditer(page.text)]
    if place < len(captions):
        lines.append(captions[place])
    return "\n".join((*lines, *_heading_and_snippet(page.text))).strip()


def _heading_and_snippet(text: str) -> tuple[str, ...]:
    """The heading of a page and the beginning of its text, cut between words."""
    heading, _, rest = text.strip().partition("\n")
    if len(heading) > _MAX_HEADING:
        heading, rest = "", text
    flat = " ".join(rest.split())
    begins = (
        flat
        if len(flat) <= _SNIPPET_LENGTH
        else flat[:_SNIPPET_LENGTH].rpartition(" ")[0] or flat[:_SNIPPET_LENGTH]
    )
    return tuple(line for line in (heading, begins) if line)


def _path_to_words(name: str) -> str:
    """A path as words: `board/org-chart_2024.png` is `board org chart 2024`."""
    bare = str(PurePosixPath(name).with_suffix(""))
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[-_/.+]+", " ", bare))
    return " ".join(spaced.split())
