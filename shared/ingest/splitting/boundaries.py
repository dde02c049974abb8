"""Where may a text be cut so that each piece fits? At paragraphs, lines, sentences, words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from shared.text.tokens import count_tokens

_Splitter = type[TextSplitter] | type[MarkdownSplitter]

OVERLAP = 0.15
"""How much of a part may repeat the end of the one before, at most."""

CHARACTERS = 3  # of a token, at most
_BLOCK = 6_000
"""Characters that the splitter gets at once: its time grows with the square of a long line's."""

# Where a block may end, the best first.
_BORDERS = ("\n\n", "\n", ". ", "\u0964", "\u3002", " ")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """The text from `start` to `end`; `header` is a table's, to be repeated above it.

    `row` says that it begins in a table.
    """

    start: int
    end: int
    header: str = ""
    row: bool = False


def pieces(text: str, limit: int) -> tuple[str, ...]:
    """Cut `text` at its natural borders. Joined, the pieces are the text."""
    return tuple(TextSplitter.from_callback(count_tokens, limit, trim=False).chunks(text))


def cut(text: str, whole: TextSpan, limit: int, splitter: _Splitter) -> Iterator[TextSpan]:
    """Cut what does not fit. The pieces leave room for an overlap."""
    if _is_within(text[whole.start : whole.end], limit):
        yield whole
        return
    cutter = splitter.from_callback(count_tokens, max(1, limit - budget(limit)), trim=False)
    for block in _blocks(text, whole):
        for offset, piece in cutter.chunk_indices(text[block.start : block.end]):
            start = block.start + offset
            yield replace(whole, start=start, end=start + len(piece))


def _blocks(text: str, whole: TextSpan) -> Iterator[TextSpan]:
    """A long text in blocks, each to the best border in its second half."""
    start = whole.start
    while whole.end - start > _BLOCK:
        half, most = start + _BLOCK // 2, start + _BLOCK
        places = (text.rfind(mark, half, most) + len(mark) for mark in _BORDERS)
        end = next((place for place in places if place > half), most)
        yield replace(whole, start=start, end=end)
        start = end
    yield replace(whole, start=start)


def _is_within(said: str, limit: int) -> bool:
    # As a token has at most so many characters, a long text need not be counted.
    return len(said) <= limit * CHARACTERS and count_tokens(said) <= limit


def budget(limit: int) -> int:
    """How many tokens a part may repeat."""
    return int(limit * OVERLAP)
