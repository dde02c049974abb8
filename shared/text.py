"""Which words of a text are looked for? One normalisation for passages and questions alike.

SQLite's own tokenizer finds no Chinese word inside a sentence and no Straße for strasse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from unicodedata import normalize

TOKENIZER = "porter unicode61 remove_diacritics 2"
"""The FTS5 tokenizer that both tables of passages and of sentences are made with."""

MOST_TERMS = 32  # of a query; a longer one finds nothing better and takes longer
LONGEST_TERM = 64  # characters of a term of a query
LETTERS_TO_PREFIX = 5  # a shorter word as a prefix finds too much: "car" would find "care"

# Thai, Lao, Burmese, Khmer, kana, Han and Hangul: written without spaces between all words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\U00020000-\U0003ffff"
)
_WORDS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]+")
_NOT = re.compile("n['\u2019]t\\b")

FUNCTION_WORDS = frozenset(
    """
    a about above after all also am an and another any anybody anyone anything are as at be
    because been before being below between both but by ca can could did do does doing during
    each either else even ever every few for from further get gets getting had has have having
    he her here hers him his how i if in into is it its just let ll m many may me might mine
    more most much must my myself near neither nor of off on once one ones only onto or other
    our ours out over own per please re s same shall she should since so some somebody someone
    something still such than that the their theirs them then there these they this those
    through to too under until up upon us ve very was we were what when where whether which
    while who whom whose why will with within without wo would you your yours
    """.split()
)
"""English words that say how a sentence is built, not what it is about; "not" says something."""

# Forms that the stemmer does not bring together.
_FORMS = dict(
    pair.split(":")
    for pair in """
    ate:eat began:begin begun:begin bought:buy broke:break broken:break brought:bring
    built:build children:child chose:choose chosen:choose feet:foot fell:fall fallen:fall
    found:find gave:give given:give gone:go grew:grow grown:grow held:hold kept:keep
    knew:know known:know laid:lay left:leave lent:lend lost:lose made:make meant:mean men:man
    met:meet paid:pay people:person ran:run said:say sent:send sold:sell spent:spend stole:steal
    stolen:steal taken:take taught:teach thought:think told:tell took:take went:go women:woman
    won:win written:write wrote:write annually:annual monthly:month weekly:week yearly:year
    """.split()
)
_MEASURES = frozenset("big far fast high large late long often old soon".split())  # "how big"


def terms(text: str) -> list[str]:
    """The words of `text` in order, in one form: strasse for Straße, not for n't.

    A run of a script that is written without spaces gives each pair of its neighbours.
    """
    return list(_terms(text))


def _terms(text: str) -> Iterator[str]:
    # The second pass takes the forms apart that casefold made.
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    for found in _WORDS.finditer(_NOT.sub(" not", folded)):
        yield from _pairs(found[0]) if _UNSPACED_RUN.match(found[0]) else (_plain(found[0]),)


def _plain(word: str) -> str:
    return _FORMS.get(word, word)


def _pairs(run: str) -> Iterable[str]:
    if len(run) == 1:
        return (run,)
    return (run[start : start + 2] for start in range(len(run) - 1))


def key_terms(question: str) -> list[str]:
    """The terms of a question once each, without function words unless nothing else is left."""
    return content_terms(question) or list(dict.fromkeys(terms(question)))


def content_terms(question: str) -> list[str]:
    """The terms of a question, once each, that say what it is about; there may be none."""
    found = terms(question)
    kept = (
        term
        for before, term in zip(("", *found), found, strict=False)
        if term not in FUNCTION_WORDS and not (before == "how" and term in _MEASURES)
    )
    return list(dict.fromkeys(kept))


def match_query(question: str) -> str:
    """The FTS5 query for any text at all; empty where there is nothing to look for."""
    return " OR ".join(map(match_term, islice(key_terms(question), MOST_TERMS)))


def match_term(term: str) -> str:
    """The FTS5 query for one of the `terms`: its beginning is enough where it is a longer word."""
    word = term[:LONGEST_TERM]
    prefix = len(term) > LONGEST_TERM or (len(term) >= LETTERS_TO_PREFIX and term.isalpha())
    return f'"{word}"' + "*" * prefix
