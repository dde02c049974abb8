"""The result of reading a file: pages with text and images, or an error with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

MEGABYTE = 2**20

MAX_FILE_BYTES = 32 * MEGABYTE
"""The default limit of a file's size."""

_MAX_TITLE = 200  # characters
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Page:
    """The text and the images of one page."""

    text: str
    number: int | None = None  # counts from 1; None where a file has no pages
    markdown: bool = False
    images: tuple[bytes, ...] = ()  # PNG or JPEG, within the size limits of a model
    # The file's title where the text does not begin with it: each passage does then
    title: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """The non-empty pages of a file, and the category that its front matter names."""

    pages: tuple[Page, ...]
    category: str | None = None


UNKNOWN_TYPE = "There is no reader for this type of file."


class UnreadableDocument(Exception):
    """A file yields no content; the message is a sentence without the file's name."""


def too_large_message(max_bytes: int) -> str:
    """The reason for skipping a file of more than `max_bytes` bytes."""
    return f"It is larger than {max_bytes / MEGABYTE:g} MB."


def distinct_title(title: str, heading: str) -> str:
    """A file's title, or nothing where its first heading contains it or is part of it.

    An example is "Leave policy - Contoso Intranet".
    """
    same = heading and (_contains_words(title, heading) or _contains_words(heading, title))
    return "" if same else title


def _contains_words(text: str, words: str) -> bool:
    """Whether a text contains whole words, ignoring case."""
    pattern = rf"(?<!\w){re.escape(words.casefold())}(?!\w)"
    return re.search(pattern, text.casefold()) is not None


def non_empty_pages(pages: Iterable[Page]) -> tuple[Page, ...]:
    """Clean the text of all pages and drop those without text and images."""
    clean = (
        replace(
            page,
            text=replace_invalid_characters(page.text),
            title=" ".join(replace_invalid_characters(page.title).split())[:_MAX_TITLE],
        )
        for page in pages
    )
    return tuple(page for page in clean if page.text.strip() or page.images)


def replace_invalid_characters(text: str) -> str:
    """Replace control characters with spaces, and lone surrogates with U+FFFD."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", _CONTROLS.sub(" ", text))
