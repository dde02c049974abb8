"""The sentences, table rows and list items of passages that match the words of a question best."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice, pairwise, zip_longest
from math import log
from typing import NamedTuple

from shared.text.stopwords import ENGLISH, select_stopwords
from shared.text.terms import MAX_TERMS, TOKENIZER, content_terms, extract_terms, fts_query

# Between two sentences; not behind a shortened word or the number of a list item.
_SENTENCE_END = re.compile(
    r"(?:(?<=[.!?\u061f\u0964])|(?<=[.!?][\"')\]\u201d]))\s+"
    r"(?<!\b[A-Z]\.\s)(?<!\b(?:Dr|Mr|Ms|No|Nr|St|vs|cf)\.\s)(?<!\b(?:Mrs|Inc|e\.g|i\.e)\.\s)"
    r"(?<![.:;!?]\s\d\.\s)(?![a-z\u00df-\u00ff\u03ac-\u03ce\u0430-\u045f])"
    r"|(?<=[\u3002\uff01\uff1f])"
)
_ITEM = re.compile(r"(?:^|\s)[-*\u2022]\s+(?![a-z])")
_MIN_ITEMS = 3  # fewer dashes may stand in sentences: "Monday - Friday"
_TABLE_RULE = re.compile(r"\|(?:\s*(?::-+:?|-{3,}:?|-+:)\s*\|){1,100}")
_HEADING_PATH = re.compile(r"(?:[^.!?|<>]{1,120} > (?=[^\W\d_])(?![a-z]))+")
_MAX_HEADING_WORDS = 8


class Excerpt(NamedTuple):
    """A source of a prompt: its headings, and its parts with the text that each is matched by."""

    line: str
    citation: str
    headings: Sequence[str]
    parts: Mapping[str, str]


def read_excerpt(line: str) -> Excerpt:
    """Read a source given as `sourcepage: content` on one line."""
    citation, _, content = line.partition(": ")
    path = _HEADING_PATH.match(content)
    end = path.end() + _heading_end(content[path.end() :]) if path else 0
    headings = [heading for heading in re.split(r" > ?", content[:end].strip()) if heading]
    return Excerpt(line, citation, headings, _parts(content[end:]))


def _heading_end(content: str) -> int:
    """Where the heading at the start of a text ends; 0 where that cannot be told."""
    # Other languages have capitals inside sentences too.
    if select_stopwords(extract_terms(content)) is not ENGLISH:
        return 0
    words = _SENTENCE_END.split(content, 1)[0].split(" ")[: _MAX_HEADING_WORDS + 1]
    for number, (before, word) in enumerate(pairwise(words), 1):
        begins = word.istitle() and (before.islower() or word.lower() in ENGLISH)
        if begins and before[-1:].isalnum() and before.lower() not in ENGLISH:
            return len(" ".join(words[:number])) + 1
    return 0


def _parts(content: str) -> dict[str, str]:
    """The parts of a text; a row is matched together with the header of its table."""
    rule = _TABLE_RULE.search(content)
    if not rule:
        return {text: text for text in _sentences(content)}
    parts, header = dict[str, str](), ""
    pieces = re.split(rf"(\|(?:[^|]*\|){{{rule[0].count('|') - 1}}})", content)  # each second a row
    for piece, following in zip_longest(pieces, pieces[2:], fillvalue=""):
        if not piece.startswith("|"):
            parts |= {text: text for text in _sentences(piece)}
        elif _TABLE_RULE.fullmatch(following):
            header = piece
        elif not _TABLE_RULE.fullmatch(piece):
            parts[piece] = header + piece
    return parts


def _sentences(text: str) -> Iterator[str]:
    items = _ITEM.split(text)
    for item in items if len(items) > _MIN_ITEMS else [text]:
        yield from filter(None, map(str.strip, _SENTENCE_END.split(item)))


def best_quotes(question: str, query: str, excerpts: Sequence[Excerpt]) -> dict[str, str]:
    """The best part of each excerpt, with its citation, in the order of the excerpts.

    The question's own terms count first, then those that the query adds to them. An excerpt that
    shares no term with the query has no quote, nor has one that shares none with the question
    where others do.
    """
    texts = {excerpt.line: excerpt.line for excerpt in excerpts}
    for excerpt in excerpts:
        texts |= excerpt.parts
    with closing(sqlite3.connect(":memory:")) as table:
        # The tokenizer of the index, so that the same words match.
        columns = f'text, part UNINDEXED, tokenize="{TOKENIZER}"'
        table.execute(f"CREATE VIRTUAL TABLE t USING fts5({columns})")
        rows = ((" ".join(extract_terms(text)), part) for part, text in texts.items())
        table.executemany("INSERT INTO t VALUES (?, ?)", rows)
        own, scores = (_scores(table, words, len(texts)) for words in (question, query))
    best = dict[str, str]()
    for excerpt in excerpts:
        parts = [part for part in excerpt.parts if part not in best]
        if parts and excerpt.line in (own or scores):
            best[max(parts, key=lambda part: (own[part], scores[part]))] = excerpt.citation
    return best


def _scores(table: sqlite3.Connection, question: str, total: int) -> Mapping[str, float]:
    """What each text scores that shares a telling word with a question: for rare ones, more."""
    scores = defaultdict[str, float](float)
    for term in islice(content_terms(question), MAX_TERMS):
        rows = table.execute("SELECT part FROM t WHERE t MATCH ?", (fts_query(term),)).fetchall()
        for (part,) in rows:
            scores[part] += log(1 + total / len(rows))
    return scores
