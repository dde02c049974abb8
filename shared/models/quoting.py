"""Which sentences of the sources answer a question? Found by their words, weighed by rarity."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, pairwise
from math import log

from shared.models.leaning import Asked
from shared.models.splitting import Sentence
from shared.text import (
    MOST_TERMS,
    TOKENIZER,
    key_terms,
    match_term,
    terms,
)

MOST_QUOTES = 4
ENOUGH = 0.5  # of a question's weight must be said, or else it is not answered
NEAR_BEST = 0.85  # of the best sentence's worth makes another one worth quoting
PAIR = 0.5  # what two neighbours in the question add where they are near each other in the sentence
NEAR = 3  # terms between them at most
LEAD = 4  # terms at the beginning of a sentence: what it speaks about
ABOUT = 0.5  # what a word of the heading or the file's name is worth, against the sentence's own
NUMBER = 1.15  # times its worth has a sentence with a number where the question asks for one
CARRIED = 0.4  # what a word of an earlier turn is worth, against the question's own
WEAK = 0.4  # what a word that hardly says anything is worth
WEAK_WORDS = frozenset(
    """
    cost find give go happen have help hold know make mean need new pay say see take tell use
    work
    """.split()
)

_ASKS_NUMBER = re.compile(
    r"\b(?:when|what age|how (?:big|far|fast|high|large|late|long|many|much|often|old|soon))\b",
    re.I,
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|once|twice|half)\b",
    re.I,
)


def quotes(asked: Asked, found: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """The sentences that answer, best first; none where the sources do not hold the answer."""
    matches = _matched(asked, found)
    if not found or not matches.weights:
        return ()
    ranked = sorted(range(len(found)), key=lambda place: matches.rank(place, found), reverse=True)
    best = ranked[0]
    if matches.covered(best) < ENOUGH:
        return ()
    rarest = max(matches.terms(best), key=lambda term: matches.weights[term])
    enough = NEAR_BEST * matches.worth(best)
    near = (p for p in ranked if rarest in matches.terms(p) and matches.worth(p) >= enough)
    different: dict[str, Sentence] = {}
    for place in near:
        different.setdefault(" ".join(terms(found[place].text)), found[place])
    return tuple(islice(different.values(), MOST_QUOTES))


@dataclass(frozen=True, slots=True)
class _Matches:
    """Which sentences (their places) say a term of the question, and which stand under it.

    `pairs` are said side by side; `numbers` are the sentences that say one, where one is asked.
    """

    weights: Mapping[str, float]
    said: Mapping[str, frozenset[int]]
    about: Mapping[str, frozenset[int]]
    pairs: Mapping[tuple[str, str], frozenset[int]]
    numbers: frozenset[int]

    def terms(self, place: int) -> list[str]:
        """The terms that a sentence says or stands under."""
        return [term for term in self.weights if place in self.said[term] | self.about[term]]

    def covered(self, place: int) -> float:
        """How much of the question's weight they are, 0 to 1."""
        return sum(map(self.weights.__getitem__, self.terms(place))) / sum(self.weights.values())

    def worth(self, place: int) -> float:
        """What a sentence is worth as an answer; comparable within one question."""
        weights = self.weights
        said = (weights[t] * (1 if place in self.said[t] else ABOUT) for t in self.terms(place))
        met = (pair for pair, places in self.pairs.items() if place in places)
        pairs = (PAIR * min(weights[first], weights[second]) for first, second in met)
        return round((sum(said) + sum(pairs)) * (NUMBER if place in self.numbers else 1), 6)

    def rank(self, place: int, found: Sequence[Sentence]) -> tuple[float, int]:
        """Its worth, then how much of its beginning the question names."""
        beginning = terms(found[place].text)[:LEAD]
        return self.worth(place), len(self.weights.keys() & set(beginning))


def _matched(asked: Asked, found: Sequence[Sentence]) -> _Matches:
    keys = key_terms(asked.text)[:MOST_TERMS]
    pairs = [pair for pair in pairwise(terms(asked.text)) if set(pair) <= set(keys)]
    with closing(_table(found)) as table:
        said = {key: _places(table, "said", match_term(key)) for key in keys}
        about = {key: _places(table, "about", match_term(key)) for key in keys}
        met = {pair: _places(table, "said", _near(*pair)) for pair in pairs[:MOST_TERMS]}
    weights = {key: _weight(key, len(said[key] | about[key]), len(found), asked) for key in keys}
    return _Matches(weights, said, about, met, _numbers(asked, found))


def _numbers(asked: Asked, found: Iterable[Sentence]) -> frozenset[int]:
    if not _ASKS_NUMBER.search(asked.text):
        return frozenset()
    return frozenset(place for place, held in enumerate(found) if _NUMBER.search(held.text))


def _table(found: Iterable[Sentence]) -> sqlite3.Connection:
    # The same tokenizer as the index's, so the same words are found.
    table = sqlite3.connect(":memory:")
    table.execute(f'CREATE VIRTUAL TABLE t USING fts5(said, about, tokenize="{TOKENIZER}")')
    rows = ((place, *_indexed(sentence)) for place, sentence in enumerate(found))
    table.executemany("INSERT INTO t (rowid, said, about) VALUES (?, ?, ?)", rows)
    return table


def _indexed(sentence: Sentence) -> tuple[str, str]:
    about = f"{sentence.heading} {sentence.source}"
    return " ".join(terms(sentence.text)), " ".join(terms(about))


def _places(table: sqlite3.Connection, column: str, query: str) -> frozenset[int]:
    rows = table.execute("SELECT rowid FROM t WHERE t MATCH ?", (f"{column} : {query}",))
    return frozenset(place for (place,) in rows)


def _near(first: str, second: str) -> str:
    """The FTS5 query for `vacation days` that finds `days of paid vacation` too."""
    return f'NEAR("{first}" "{second}", {NEAR})'


def _weight(term: str, holding: int, number: int, asked: Asked) -> float:
    """How much a term says: what few sentences hold, more; what none holds, most."""
    carried = 1.0 if term in asked.own else CARRIED
    weak = WEAK if {term, term.removesuffix("s")} & WEAK_WORDS else 1.0
    return log(1 + number / (holding + 0.5)) * carried * weak
