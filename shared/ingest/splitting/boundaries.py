"""Splits a text at paragraphs, lines, sentences or words into spans of limited size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from shared.text.tokens import count_tokens

_Splitter = type[TextSplitter] | type[MarkdownSplitter]

OVERLAP_RATIO = 0.15
"""The largest share of a part that repeats the end of the previous one."""

MAX_TOKEN_CHARACTERS = 3  # of a token, at most
_BLOCK_CHARACTERS = 6_000
"""Characters per call of the splitter, whose time is quadratic in the length of a line."""

# Where a block may end, in order of preference.
_BLOCK_ENDS = ("\n\n", "\n", ". ", "\u0964", "\u3002", " ")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """The text from `start` to `end`; `header` is a table's, to be repeated above it.

    `in_table` says that it begins in a table.
    """

    start: int
    end: int
    header: str = ""
    in_table: bool = False


def split_text(text: str, limit: int) -> tuple[str, ...]:
    """Split a text into chunks of at most `limit` tokens; joined, they are the text."""
    return tuple(TextSplitter.from_callback(count_tokens, limit, trim=False).chunks(text))


def split_span(text: str, span: TextSpan, limit: int, splitter: _Splitter) -> Iterator[TextSpan]:
    """Split a span that exceeds `limit` tokens; the parts leave room for the overlap."""
    if _fits(text[span.start : span.end], limit):
        yield span
        return
    cutter = splitter.from_callback(count_tokens, max(1, limit - overlap_tokens(limit)), trim=False)
    for block in _split_blocks(text, span):
        for offset, piece in cutter.chunk_indices(text[block.start : block.end]):
            start = block.start + offset
            yield replace(span, start=start, end=start + len(piece))


def _split_blocks(text: str, span: TextSpan) -> Iterator[TextSpan]:
    """Split a long span into blocks, each at the best boundary in its second half."""
    start = span.start
    while span.end - start > _BLOCK_CHARACTERS:
        half, most = start + _BLOCK_CHARACTERS // 2, start + _BLOCK_CHARACTERS
        places = (text.rfind(mark, half, most) + len(mark) for mark in _BLOCK_ENDS)
        end = next((place for place in places if place > half), most)
        yield replace(span, start=start, end=end)
        start = end
    yield replace(span, start=start)


def _fits(text: str, limit: int) -> bool:
    # A long text need not be counted, as the characters of a token are limited.
    return len(text) <= limit * MAX_TOKEN_CHARACTERS and count_tokens(text) <= limit


def overlap_tokens(limit: int) -> int:
    """The number of tokens that a part may repeat."""
    return int(limit * OVERLAP_RATIO)
