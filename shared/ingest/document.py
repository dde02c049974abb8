"""What reading a file gives: its pages, with their text and pictures, or the reason why not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

MEGABYTE = 2**20

LARGEST = 32 * MEGABYTE
"""The most bytes of a file, unless a run says otherwise."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class PageImage:
    """A picture, small enough for a model: PNG or JPEG. `name` is what its file calls it."""

    data: bytes
    name: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one page; `number` counts from 1 and is None where a file has no pages."""

    text: str
    number: int | None = None
    markdown: bool = False
    pictures: tuple[PageImage, ...] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: pages that are not empty, and the category that it gives itself."""

    pages: tuple[Page, ...]
    category: str | None = None


class UnreadableDocument(Exception):
    """A file gave nothing to find; the message is a sentence without the file's name."""


def too_large(largest: int) -> str:
    """The reason for a file of more than `largest` bytes."""
    return f"It is larger than {largest / MEGABYTE:g} MB."


def filled(pages: Iterable[Page]) -> tuple[Page, ...]:
    """The pages that hold anything, their text in characters that every store takes."""
    clean = (replace(page, text=cleaned(page.text)) for page in pages)
    return tuple(page for page in clean if page.text.strip() or page.pictures)


def cleaned(text: str) -> str:
    """`text` without control characters and halves of characters."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", _CONTROLS.sub(" ", text))
