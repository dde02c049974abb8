"""Where may a text be cut so that each piece fits? At paragraphs, lines, sentences, words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from shared.text.tokens import count_tokens

_Splitter = type[TextSplitter] | type[MarkdownSplitter]

OVERLAP_RATIO = 0.15
"""How much of a part may repeat the end of the one before, at most."""

MAX_TOKEN_CHARACTERS = 3  # of a token, at most
_BLOCK_CHARACTERS = 6_000
"""Characters that the splitter gets at once: its time grows with the square of a long line's."""

# Where a block may end, the best first.
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
    """Cut `text` at its natural borders. Joined, the pieces are the text."""
    return tuple(TextSplitter.from_callback(count_tokens, limit, trim=False).chunks(text))


def split_span(text: str, whole: TextSpan, limit: int, splitter: _Splitter) -> Iterator[TextSpan]:
    """Cut what does not fit. The pieces leave room for an overlap."""
    if _fits(text[whole.start : whole.end], limit):
        yield whole
        return
    cutter = splitter.from_callback(count_tokens, max(1, limit - overlap_tokens(limit)), trim=False)
    for block in _split_blocks(text, whole):
        for offset, piece in cutter.chunk_indices(text[block.start : block.end]):
            start = block.start + offset
            yield replace(whole, start=start, end=start + len(piece))


def _split_blocks(text: str, whole: TextSpan) -> Iterator[TextSpan]:
    """A long text in blocks, each to the best border in its second half."""
    start = whole.start
    while whole.end - start > _BLOCK_CHARACTERS:
        half, most = start + _BLOCK_CHARACTERS // 2, start + _BLOCK_CHARACTERS
        places = (text.rfind(mark, half, most) + len(mark) for mark in _BLOCK_ENDS)
        end = next((place for place in places if place > half), most)
        yield replace(whole, start=start, end=end)
        start = end
    yield replace(whole, start=start)


def _fits(said: str, limit: int) -> bool:
    # As a token has at most so many characters, a long text need not be counted.
    return len(said) <= limit * MAX_TOKEN_CHARACTERS and count_tokens(said) <= limit


def overlap_tokens(limit: int) -> int:
    """How many tokens a part may repeat."""
    return int(limit * OVERLAP_RATIO)
