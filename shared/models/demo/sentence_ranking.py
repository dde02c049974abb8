"""Which sentences of the sources answer a question? Found by their words, weighed by rarity."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from math import log

from shared.models.demo.question_resolution import ResolvedQuestion
from shared.models.demo.sentence_splitter import Sentence
from shared.text.terms import MAX_TERMS, TOKENIZER, extract_terms, fts_query, key_terms

MOST_QUOTES = 4
ENOUGH = 0.5  # of a question's weight must be said, or else it is not answered
NEAR_BEST = 0.85  # of the best sentence's worth makes another one worth quoting
ABOUT = 0.5  # what a word of the heading or the file's name is worth, against the sentence's own
CARRIED = 0.4  # what a word of an earlier turn is worth, against the question's own
WEAK = 0.4  # what a word that hardly says anything is worth
WEAK_WORDS = frozenset(
    """
    cost find give go happen have help hold know make mean need new pay say see take tell use
    work
    """.split()
)


def quotes(asked: ResolvedQuestion, found: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """The sentences that answer, best first; none where the sources do not hold the answer."""
    matches = _matched(asked, found)
    if not found or not matches.weights:
        return ()
    ranked = sorted(range(len(found)), key=matches.worth, reverse=True)
    best = ranked[0]
    if matches.covered(best) < ENOUGH:
        return ()
    rarest = max(matches.terms(best), key=lambda term: matches.weights[term])
    enough = NEAR_BEST * matches.worth(best)
    near = (p for p in ranked if rarest in matches.terms(p) and matches.worth(p) >= enough)
    different: dict[str, Sentence] = {}
    for place in near:
        different.setdefault(" ".join(extract_terms(found[place].text)), found[place])
    return tuple(islice(different.values(), MOST_QUOTES))


@dataclass(frozen=True, slots=True)
class _Matches:
    """Which sentences (their places) say a term of the question, and which stand under it."""

    weights: Mapping[str, float]
    said: Mapping[str, frozenset[int]]
    about: Mapping[str, frozenset[int]]

    def terms(self, place: int) -> list[str]:
        """The terms that a sentence says or stands under."""
        return [
            term for term in self.weights if place in self.said[term] or place in self.about[term]
        ]

    def covered(self, place: int) -> float:
        """How much of the question's weight they are, 0 to 1."""
        return sum(map(self.weights.__getitem__, self.terms(place))) / sum(self.weights.values())

    def worth(self, place: int) -> float:
        """What a sentence is worth as an answer; comparable within one question."""
        said = (
            self.weights[term] * (1 if place in self.said[term] else ABOUT)
            for term in self.terms(place)
        )
        return round(sum(said), 6)


def _matched(asked: ResolvedQuestion, found: Sequence[Sentence]) -> _Matches:
    keys = key_terms(asked.text)[:MAX_TERMS]
    with closing(_table(found)) as table:
        said = {key: _places(table, "said", fts_query(key)) for key in keys}
        about = {key: _places(table, "about", fts_query(key)) for key in keys}
    weights = {key: _weight(key, len(said[key] | about[key]), len(found), asked) for key in keys}
    return _Matches(weights, said, about)


def _table(found: Iterable[Sentence]) -> sqlite3.Connection:
    # The same tokenizer as the index's, so the same words are found.
    table = sqlite3.connect(":memory:")
    table.execute(f'CREATE VIRTUAL TABLE t USING fts5(said, about, tokenize="{TOKENIZER}")')
    rows = ((place, *_indexed(sentence)) for place, sentence in enumerate(found))
    table.executemany("INSERT INTO t (rowid, said, about) VALUES (?, ?, ?)", rows)
    return table


def _indexed(sentence: Sentence) -> tuple[str, str]:
    about = f"{sentence.heading} {sentence.source}"
    return " ".join(extract_terms(sentence.text)), " ".join(extract_terms(about))


def _places(table: sqlite3.Connection, column: str, query: str) -> frozenset[int]:
    rows = table.execute("SELECT rowid FROM t WHERE t MATCH ?", (f"{column} : {query}",))
    return frozenset(place for (place,) in rows)


def _weight(term: str, holding: int, number: int, asked: ResolvedQuestion) -> float:
    """How much a term says: what few sentences hold, more; what none holds, most."""
    carried = 1.0 if term in asked.own else CARRIED
    weak = WEAK if {term, term.removesuffix("s")} & WEAK_WORDS else 1.0
    return log(1 + number / (holding + 0.5)) * carried * weak
