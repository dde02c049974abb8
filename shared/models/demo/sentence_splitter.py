"""Which sentences, rows and items do the sources of a prompt hold, and under which heading?

A source's text stands on one line there: where a heading ends is found by how sentences begin.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shared.text.stopwords import ENGLISH
from shared.text.terms import extract_terms

_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"')\u201d]))\s+(?=[\"'(\u201c]?[A-Z0-9\u00c0-\u00de])"
    r"|(?<=[\u3002\uff01\uff1f])"
)
_SHORT = re.compile(r"(?:\b(?:Dr|Mr|Mrs|Ms|No|vs|St|Inc|e\.g|i\.e|cf|approx)|\b[A-Z])\.$")
# A dash inside a sentence is hardly ever followed by a capital or a digit.
_ITEM = re.compile(
    r"(?:\A|(?<=[.:;!?])\s+)(?:[-*\u2022]|\d{1,2}[.)])\s+|\s[-*\u2022]\s+(?=[A-Z0-9])"
)
_RULE = re.compile(r"\|(?:\s*:?-{3,}:?\s*\|)+")
_PATH = re.compile(r"(?:[^.!?|>]{1,120} >\s*)+")
_MARKS = ".,:;!?"
_LONGEST_HEADING = 8  # words
_MOST_HEADINGS = 6  # of a text, one below the other
_LONGEST_SHORT = 9  # characters that tell whether a text ends with a shortened word


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, table row or list item, the heading above it and the source that holds it."""

    text: str
    heading: str
    source: str


def sentences(lines: Iterable[str]) -> tuple[Sentence, ...]:
    """The sentences of sources given as `sourcepage: content on one line`."""
    split = [(source, _split(content)) for source, _, content in (x.partition(": ") for x in lines)]
    style = _style([texts for _, texts in split])
    return tuple(
        Sentence(text, heading, source)
        for source, texts in split
        for heading, text in _under_headings(texts, style)
    )


@dataclass(frozen=True, slots=True)
class _Style:
    """How these sources are written: the words that begin sentences, how often two words meet."""

    openers: frozenset[str]
    pairs: Mapping[tuple[str, str], int]


def _style(sources: Iterable[Sequence[str]]) -> _Style:
    worded = [[text.split() for text in texts] for texts in sources]
    # The first text of a source may begin with a heading.
    openers = frozenset(words[0] for texts in worded for words in texts[1:])
    bare = ([word.strip(_MARKS) for word in words] for texts in worded for words in texts)
    return _Style(openers, Counter(pair for words in bare for pair in pairwise(words)))


def _under_headings(texts: Iterable[str], style: _Style) -> Iterator[tuple[str, str]]:
    """Each text and what stands above it. On one line, a heading runs into the next sentence."""
    heading = ""
    for text in texts:
        path = _PATH.match(text)
        words = (text[path.end() :] if path else text).split()
        above: list[str] = []
        for _ in range(_MOST_HEADINGS):
            cut = _heading_end(words, style, certain=bool(path) and not above)
            if not cut:
                break
            above.append(" ".join(words[:cut]))
            words = words[cut:]
        if path or above:
            heading = " > ".join((*(path[0].split(" > ")[:-1] if path else ()), *above))
        if words:
            yield heading, " ".join(words)


def _heading_end(words: Sequence[str], style: _Style, certain: bool) -> int:
    """How many of the first words are a heading; 0 where there is none."""
    places = range(1, min(len(words), _LONGEST_HEADING + 1))
    found = (place for place in places if _begins(words, place, style))
    if place := next(found, 0):
        return place
    capitals = (place for place in places if words[place][0].isupper())
    return next(capitals, 0) if certain else 0


def _begins(words: Sequence[str], place: int, style: _Style) -> bool:
    """Whether a new sentence begins at `place` although there is no mark before it."""
    before, word = words[place - 1], words[place]
    if not (word.istitle() and before[-1].isalnum()) or before.lower() in ENGLISH:
        return False
    # "Part A" and "Health Plus" are names where they come more than once.
    if word == "I" or (before[0].isupper() and style.pairs[before, word.strip(_MARKS)] > 1):
        return False
    opens = word in style.openers and word != words[0]
    return opens or word.lower() in ENGLISH or _repeated(words, place)


def _repeated(words: Sequence[str], place: int) -> bool:
    """Whether the words before `place` come again after it, as those of a heading do."""
    return set(extract_terms(" ".join(words[:place]))) <= set(
        extract_terms(" ".join(words[place:]))
    )


def _split(content: str) -> list[str]:
    """A source's text cut into sentences, items and rows."""
    found, start = list[str](), 0
    while rule := _RULE.search(content, start):
        cells = rule[0].count("|") - 1
        before, names = _header(content[start : rule.start()], cells)
        if before and before[-1] not in ".:!?":
            before += " > "  # nothing but a heading stands there
        found += _plain(before)
        row, start = re.compile(rf"\s*\|(?:[^|]*\|){{{cells}}}"), rule.end()
        while cut := row.match(content, start):
            found.append(_row(names, _cells(cut[0])))
            start = cut.end()
    return [*found, *_plain(content[start:])]


def _header(before: str, cells: int) -> tuple[str, list[str]]:
    """What stands before a table's rule: the text, and the names of its columns."""
    text, *names = before.rstrip().rsplit("|", cells + 1)
    if len(names) <= cells or names[-1]:  # no row of so many cells ends it
        return before.strip(), [""] * cells
    return text.strip(), [name.strip() for name in names[:-1]]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip()[1:-1].split("|")]


def _row(names: Sequence[str], cells: Sequence[str]) -> str:
    """A row as a line to be read: `Eye exam: Plus 1 a year, Standard 1 every two years`."""
    label, *values = cells
    said = (f"{name} {value}".strip() for name, value in zip(names[1:], values, strict=True))
    return f"{label}: {'; '.join(said)}."


def _plain(text: str) -> list[str]:
    found: list[list[str]] = []
    for part in (piece for item in _ITEM.split(text) for piece in _END.split(item)):
        if found and _SHORT.search(found[-1][-1][-_LONGEST_SHORT:]):
            found[-1].append(part)
        elif part.strip():
            found.append([part.lstrip()])
    return [" ".join(parts) for parts in found]
